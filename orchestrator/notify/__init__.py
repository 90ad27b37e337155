"""Notices to people: incidents made of the history, sent by the controller that leads."""
