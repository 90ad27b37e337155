"""What is known and what is decided: nouns, the store's port, and the stores that keep it."""
