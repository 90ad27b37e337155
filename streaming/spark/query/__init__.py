"""One streaming query, from its declaration to its runs."""
