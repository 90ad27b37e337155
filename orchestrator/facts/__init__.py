"""What is asked of clusters, runners and the store before anything is decided."""
