"""The chain of the evidence, read from its first link to its last."""

from collections.abc import Callable, Iterator

from state.model.evidence import KEPT, Chain, Evidence, Flaw
from state.store.controller_store import ControllerStore

LINKS_AT_ONCE = 10
MOST_ANNOUNCED = 1_000_000


def links(store: ControllerStore, after: int = 0) -> Iterator[Evidence]:
    """The chain behind a link, a few at a time. Raises ``StoreError``."""
    while found := store.evidence_after(after, limit=LINKS_AT_ONCE):
        yield from found
        after = found[-1].sequence


def check_chain(store: ControllerStore, report: Callable[[int], None] = lambda links: None) -> tuple[Chain, list[Flaw]]:
    """The chain, read from its first link to its last, and what is wrong with it. Raises ``StoreError``."""
    announced = store.history(kind=KEPT, limit=MOST_ANNOUNCED)  # first: what is kept in between is in the chain then
    chain, after = Chain(), 0
    while found := store.evidence_after(after, limit=LINKS_AT_ONCE):
        chain.add(found)
        after = found[-1].sequence
        report(chain.links)
    return chain, chain.end(announced)
