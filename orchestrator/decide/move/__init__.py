"""What a move will cost, and what it came to."""
