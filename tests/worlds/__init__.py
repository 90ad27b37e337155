"""An independent fuzzer of the resolver: worlds with a truth of their own, and a judge that knows no code of it.

``python -m tests.worlds --help`` plays worlds by their seeds; ``tests/simulation/test_worlds.py`` and
``tests/long/test_worlds.py`` do so in the suites.
"""
