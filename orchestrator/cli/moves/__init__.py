"""Verbs that stop queries and start them elsewhere, in place or in time, and what these verbs have in common."""
