"""What was begun and not answered: exit 3, not 2, since the store may have kept it."""

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.errors import OutcomeUnknown
from state.errors import StoreUnavailable


@contextmanager
def unknown_if_lost(begun: str, *, hint: str) -> Iterator[None]:
    """Around a write and what is read after it. Raises ``OutcomeUnknown`` when the store is lost in it.

    Not for what is asked before: a store that was away then has got nothing, which is a failure like any other.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise OutcomeUnknown(f"{begun} may be kept or not: {error}", hint=hint) from error
