"""The evidence of an operation: its document, its page, and the claims in it that can be checked again. Pure."""
