"""What is known and what was decided, as frozen values."""
