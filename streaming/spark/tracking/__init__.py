"""What a query has consumed, recorded beside it."""
