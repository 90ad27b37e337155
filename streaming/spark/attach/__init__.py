"""Queries of an application that starts them itself: its driver is joined, its starts are admitted."""
