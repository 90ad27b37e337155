"""The configuration: every key, what may be written for it, and the rules between keys."""
