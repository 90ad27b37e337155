"""Mutation testing of what a failover's promises rest on: ``make mutants``.

A mutant is the program with one small mistake in it. The fast tests must fail on each; a mutant that passes all of them
survives, and is either a hole in the tests or equivalent to the program (``explained.py`` says why).
"""
