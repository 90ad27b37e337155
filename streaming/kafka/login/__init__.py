"""Logins that take more than a password: a token or a ticket is fetched first, on a thread of its own."""
