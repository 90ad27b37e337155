"""The store of a runner that must not have the store's password: the same calls, sent to a controller."""
