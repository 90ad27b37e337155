"""What the page of the operator's desk says: what is wrong, and how each thing stands. Pure."""
