"""Requests and operations, from the words of an operator to the last step."""
