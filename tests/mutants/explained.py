"""Mutants that survive, and why each is equivalent to the program: by ``Mutant.key``."""

EXPLAINED: dict[str, str] = {}
