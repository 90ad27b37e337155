"""Records that a cluster has taken, every one."""

from collections.abc import Mapping

from confluent_kafka import Producer

from lab.errors import NotDelivered

_SECONDS = 120.0


class Delivery(Producer):
    """A producer that knows what it was refused: ``flush`` counts an answer, whatever it says."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._refused: list[str] = []
        super().__init__({**settings, "on_delivery": self._note})

    def confirm(self, seconds: float = _SECONDS) -> None:
        """Wait until the cluster has each record that was produced. Raises NotDelivered where it has not."""
        waiting = self.flush(seconds)
        if waiting or self._refused:
            raise NotDelivered(
                f"{waiting} records had no answer in {seconds:g} s, {len(self._refused)} were refused: "
                f"{self._refused[0] if self._refused else 'none'}"
            )

    def _note(self, error: object, _record: object) -> None:
        if error is not None:
            self._refused.append(str(error))
