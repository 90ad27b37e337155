"""What runners send to a controller in place of the store: which call, by which token, and its answer."""
