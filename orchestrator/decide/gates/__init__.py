"""The checks that can refuse an operation."""
