"""One scenario for each fault that must be survived, and the table of all of them."""
