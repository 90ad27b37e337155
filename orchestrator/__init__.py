"""Decides and acts: configuration, gates, plans, one operation from hold to proof, and the command line."""
