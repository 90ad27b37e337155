"""The rules that hold at every moment of a world, and what broke them.

They are judged by what the drivers do and by what the store holds, never by what an operation says of itself: a
step that is skipped leaves no trace in its own sentence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from state.messages import Offsets, PrepareRequest
from state.model.entities import Assignment, Desired, Intent, IntentKind, IntentState, Phase
from state.settings.keys import Resume

if TYPE_CHECKING:
    from tests.simulation.driver import Driver
    from tests.simulation.live import LiveWorld


class Place(NamedTuple):
    """What a commit decides of a query."""

    cluster: str
    checkpoint: str
    starting_offsets: Mapping[str, Any] | None
    chosen: Offsets | None
    """The offsets that its checkpoint was made for; None for the place that a query began with."""


@dataclass
class Rules:
    """Of one world; ``check`` is called at every moment."""

    world: "LiveWorld"
    broken: list[str] = field(default_factory=list)
    _epochs: dict[str, int] = field(default_factory=dict)
    _places: dict[tuple[str, int], Place] = field(default_factory=dict)
    _given: dict[str, dict[int, Assignment]] = field(default_factory=dict)
    """By query and epoch, the rows under which it was to run."""
    _begun: set[tuple[str, str, int]] = field(default_factory=set)

    def check(self) -> None:
        """Look at everything."""
        processes = list(self.world.processes.values())
        rows = self.world.store.assignments()
        for row in rows:
            if row.desired is Desired.RUNNING:
                self._given.setdefault(row.query, {})[row.epoch] = row
        self._one_run_of_a_query(processes)
        for row in rows:
            self._no_epoch_falls(row)
            self._no_place_changes(row)
        self._nothing_begins_unfenced(processes)
        for query, batch in self.world.sink.changed:
            self._say(f"batch {batch} of {query} came with other records")

    def restart(self) -> None:
        """The store was put back: its epochs may be old ones, and what no one began is as if it had never been."""
        self._epochs.clear()
        begun = {(query, epoch) for _, query, epoch in self._begun}
        for query, rows in self._given.items():
            self._given[query] = {epoch: row for epoch, row in rows.items() if (query, epoch) in begun}

    def _say(self, text: str) -> None:
        self.broken.append(f"{self.world.clock.passed:.1f}: {text}")

    def _one_run_of_a_query(self, processes: Iterable["Driver"]) -> None:
        runs = [(run.row.query, run.row.epoch) for each in processes for run in each.goes_on]
        names = [query for query, _ in runs]
        for query in sorted({name for name in names if names.count(name) > 1}):
            self._say(f"{query} runs under {sorted(epoch for name, epoch in runs if name == query)}")

    def _no_epoch_falls(self, row: Assignment) -> None:
        if row.epoch < self._epochs.get(row.query, 0):
            self._say(f"epoch of {row.query} fell to {row.epoch}")
        self._epochs[row.query] = row.epoch

    # -- places ----------------------------------------------------------------------------------------------------
    def _no_place_changes(self, row: Assignment) -> None:
        """Also what its checkpoint was made for: seen at the commit, and for as long as the operation is open."""
        key = row.query, row.placed_epoch
        now = Place(row.cluster, row.checkpoint, row.starting_offsets, self._chosen(row))
        first = self._places.get(key)
        if first is None:
            self._places[key] = now
            self._holds_what_was_chosen(row, now)
        elif now._replace(chosen=now.chosen or first.chosen) != first:
            self._say(f"{row.query} was placed at {first}, now at {now}")

    def _chosen(self, row: Assignment) -> Offsets | None:
        operation = self.world.store.operation(row.operation) if row.operation else None
        if operation is None or not operation.is_open:
            return None
        made = [PrepareRequest.of(each.request) for each in self._done(operation.id, IntentKind.PREPARE)]
        return next((each.target_offsets for each in reversed(made) if each.target == row.checkpoint), None)

    def _holds_what_was_chosen(self, row: Assignment, place: Place) -> None:
        """Nothing can have been read there yet."""
        if place.chosen is None:
            return
        reported: Mapping[str, Any] | None = self.world.checkpoints[row.checkpoint].offsets
        if self.world.settings.queries[row.query].resume is Resume.FRESH:
            reported = place.starting_offsets
        if reported != place.chosen:
            self._say(f"{row.query} resumes at {reported}, chosen was {place.chosen}")

    # -- fences ----------------------------------------------------------------------------------------------------
    def _nothing_begins_unfenced(self, processes: Iterable["Driver"]) -> None:
        for each in processes:
            for run in each.goes_on:
                begun = each.instance, run.row.query, run.row.epoch
                if begun not in self._begun and not self._may_begin(run.row):
                    self._say(f"{run.row.query} began under epoch {run.row.epoch} before a fence was confirmed")
                self._begun.add(begun)

    def _may_begin(self, row: Assignment) -> bool:
        """Whether the run before this epoch is proven stopped, or this is where and with whom it was, and rightly.

        An operation that was given up fences under its hold's epoch and gives the query back under the next one. Who
        keeps the query where it is needs no proof: no two processes have one name.
        """
        if row.epoch == 1 or row.operation is None or self._is_fenced(row.operation, row.epoch):
            return True
        operation = self.world.store.operation(row.operation)
        gives_back = operation is not None and operation.phase is Phase.ABORTED
        if gives_back and self._is_fenced(row.operation, row.epoch - 1):
            return True
        before = max((epoch for epoch in self._given[row.query] if epoch < row.epoch), default=None)
        if before is None:
            return False
        former = self._given[row.query][before]
        stays = (former.runner, former.cluster, former.checkpoint) == (row.runner, row.cluster, row.checkpoint)
        return stays and self._may_begin(former)

    def _is_fenced(self, name: str, epoch: int) -> bool:
        """Whether a fence of this very epoch was answered with a proof, or a person consented to the lack of it."""
        operation = self.world.store.operation(name)
        consents = operation.consents if operation is not None else ()
        fences = [each for each in self._done(name, IntentKind.FENCE) if each.epoch == epoch]
        return any((each.result or {}).get("proof") or _is_answered_for(each, consents) for each in fences)

    def _done(self, operation: str, kind: IntentKind) -> list[Intent]:
        found = self.world.store.intents(operation)
        return [each for each in found if each.kind is kind and each.state is IntentState.DONE]


def _is_answered_for(fence: Intent, consents: Iterable[str]) -> bool:
    """Whether a person has consented to continue without proof of the very run that this fence was to stop."""
    hosting: Any = fence.request.get("hosting")
    run = "" if hosting is None else f"instance {hosting['instance']}"
    return any(consent.startswith("unfenced") and run in consent for consent in consents)
