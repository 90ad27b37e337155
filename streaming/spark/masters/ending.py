"""Whether a driver has ended, as far as a cluster manager's answer goes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ending:
    """``is_proven`` only where the answer can mean nothing else; ``detail`` says what was seen, in one sentence."""

    is_proven: bool
    detail: str


SECONDS = 2.0
"""How long one answer is waited for: a fence looks again, and a start says why it is refused."""
