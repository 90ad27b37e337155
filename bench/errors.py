"""What can go wrong in the bench itself."""

from state.errors import TideoverError


class BenchError(TideoverError):
    """A measurement could not be taken."""

    kind = "bench"
