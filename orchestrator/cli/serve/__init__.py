"""Verbs that stay, and those for whoever sets Tideover up."""
