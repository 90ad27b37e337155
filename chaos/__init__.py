"""Chaos: the compose environment, faults injected into it, and a report of what survived.

`python -m chaos run|soak|list`. It knows containers only, through the command lines of Docker and Compose, and the
product only by its command line. The product imports nothing from here.
"""
