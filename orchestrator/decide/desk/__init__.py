"""What the page of the operator's desk says: what is wrong, and the state of each thing. Pure."""
