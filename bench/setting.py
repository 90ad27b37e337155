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
    runs: int | None
    """Samples of the expensive kinds (a whole move); None: as many as each measurement usually takes."""
    base_port: int
    """First of 30 ports that nothing else uses."""
    say: Say

    def count(self, usual: int) -> int:
        """How many samples of an expensive kind to take."""
        return usual if self.runs is None else self.runs
