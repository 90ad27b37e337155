"""What was drawn of one status is shown to all who ask before the next one: a page more costs next to nothing."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from markupsafe import Markup

from orchestrator.decide.status import Status

PAGES = 64
"""So many are kept; each is some ten kilobytes."""


@dataclass
class Drawn:
    """The newest drawing of each page; several threads may ask."""

    _kept: OrderedDict[Hashable, tuple[Status, Markup]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, page: Hashable, status: Status, draw: Callable[[], Markup]) -> Markup:
        """The page as it was drawn of this very status, else as ``draw`` makes it."""
        with self._lock:
            kept = self._kept.get(page)
        if kept is not None and kept[0] is status:
            return kept[1]
        markup = draw()
        with self._lock:
            self._kept[page] = (status, markup)
            self._kept.move_to_end(page)
            while len(self._kept) > PAGES:
                self._kept.popitem(last=False)
        return markup
