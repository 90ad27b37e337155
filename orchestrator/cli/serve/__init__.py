"""Verbs that stay, and those for the setup of Tideover."""
