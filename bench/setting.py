"""What every measurement is given: a directory of its own, how often, which ports, and a voice."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The surroundings of one measurement."""

    directory: Path
    """Emptied before the measurement."""
    runs: int
    """Samples of the expensive kind (a whole failover); cheap ones are taken more often."""
    base_port: int
    """First of 30 ports that nothing else uses."""
    say: Say
