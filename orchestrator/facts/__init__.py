"""What is read from clusters, runners and the store before anything is decided."""
