"""The page of the operator's desk: HTML that works without scripts, made by the controller."""
