"""Reads what the example pipelines wrote, each in its own way."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet

from lab.errors import NoSink, Unjudgeable
from lab.judge import Partition, QueryVerdict, judge_by_id, judge_by_sums, weight
from lab.truth import Truth

Home = Callable[[str], str]
"""From the name of a topic that a record was read from to its name on the primary."""
Settings = Mapping[str, Any]
Judge = Callable[[Truth], QueryVerdict]
Read = Callable[[Settings, Home], Judge]
"""Reads a sink as it is now; what it returns judges that, by clusters that are read afterwards and know all it has."""
Count = Callable[[Path], int]

_DEFAULT_WINDOW_SECONDS = 60
_ALL_TIME_MS = 1 << 62
_WINDOWS = 'SELECT start_ms, topic, "partition", orders, hash_high, hash_low FROM windows'


def _windowed(deduplicates: bool) -> Read:
    def read(settings: Settings, home: Home) -> Judge:
        windows: defaultdict[Partition, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        for start_ms, topic, partition, *sums in _rows(Path(settings["sink"]), _WINDOWS):
            windows[home(topic), partition][start_ms] += weight(*sums)
        window_ms = int(settings.get("window_seconds", _DEFAULT_WINDOW_SECONDS)) * 1000
        return lambda truth: judge_by_sums(truth, windows, window_ms, deduplicates=deduplicates)

    return read


def _counted(settings: Settings, _: Home) -> Judge:
    deliveries = dict(_rows(Path(settings["sink"]), "SELECT id, deliveries FROM orders"))
    return lambda truth: judge_by_id(truth, deliveries)


def _archived(settings: Settings, _: Home) -> Judge:
    deliveries = archived(Path(settings["sink"]))
    return lambda truth: judge_by_id(truth, deliveries)


def _batches(settings: Settings, _: Home) -> Judge:
    """A file for each batch, an id a line."""
    deliveries = Counter(int(line) for lines in _lines(Path(settings["sink"])).values() for line in lines)
    return lambda truth: judge_by_id(truth, deliveries)


def _totals(settings: Settings, _: Home) -> Judge:
    """A file for each partition of its one topic: how many, and two sums of hashes, over all time."""
    found = _lines(Path(settings["sink"]))
    rows = {(settings["topic"], int(name)): {0: weight(*map(int, lines))} for name, lines in found.items()}
    return lambda truth: judge_by_sums(truth, rows, _ALL_TIME_MS, deduplicates=False)


def _lines(folder: Path) -> dict[str, list[str]]:
    """By name the lines of each file that is complete. Raises NoSink while nothing was written."""
    if not folder.exists():
        raise NoSink(f"there is no sink {folder}")
    complete = (path for path in folder.iterdir() if not path.name.startswith("."))
    return {path.name: path.read_text(encoding="ascii").splitlines() for path in complete}


def _sum(query: str) -> Count:
    return lambda sink: sum(number or 0 for (number,) in _rows(sink, query))


def _archived_rows(sink: Path) -> int:
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in committed_files(sink / "_spark_metadata"))


@dataclass(frozen=True, slots=True)
class Sink:
    """What is known of the sink of a pipeline."""

    read: Read
    delivered: Count
    """How many records it got, repeats included; without looking at each."""


SINKS: Mapping[str, Sink] = {
    "examples.orders:revenue_per_minute": Sink(_windowed(deduplicates=True), _sum("SELECT sum(orders) FROM windows")),
    "examples.orders:orders_per_minute": Sink(_windowed(deduplicates=False), _sum("SELECT sum(orders) FROM windows")),
    "examples.orders:archive": Sink(_archived, _archived_rows),
    "examples.orders:latest_orders": Sink(_counted, _sum("SELECT sum(deliveries) FROM orders")),
    "examples.orders:orders_once": Sink(_counted, _sum("SELECT sum(deliveries) FROM orders")),
    "tests.jobs:archive": Sink(_batches, lambda sink: sum(map(len, _lines(sink).values()))),
    "tests.jobs:totals": Sink(_totals, lambda sink: sum(int(lines[0]) for lines in _lines(sink).values())),
}
"""By pipeline; the last two are what an application without one keeps, as ``tests/jobs`` do."""


def archived(folder: Path) -> dict[int, int]:
    """Return how often each id is in the Parquet files that the file sink committed.

    The sink's own log names them (Spark's ``FileStreamSinkLog``): the folder also holds files of batches that failed.
    """
    counted: Counter[int] = Counter()
    for path in committed_files(folder / "_spark_metadata"):
        counted.update(pyarrow.parquet.read_table(path, columns=["id"]).column("id").to_pylist())
    return dict(counted)


def committed_files(log: Path) -> list[Path]:
    """Return the files that a file sink's log names: the newest compacted entry, and the entries after it.

    Raises NoSink where no batch was ever committed.
    """
    entries = {int(path.stem): path for path in sorted(log.glob("[0-9]*"), key=lambda path: path.suffix)}
    if not entries:
        raise NoSink(f"no batch was ever committed to the file sink {log.parent}")
    compacted = max((batch for batch, path in entries.items() if path.suffix == ".compact"), default=0)
    lines = [line for batch in sorted(entries) if batch >= compacted for line in _entry_lines(entries[batch])]
    return [Path(unquote(urlparse(json.loads(line)["path"]).path)) for line in lines]


def _entry_lines(entry: Path) -> list[str]:
    """Return one entry's lines without the version that heads them."""
    return [line for line in entry.read_text(encoding="utf-8").splitlines()[1:] if line]


def _rows(database: Path, query: str) -> list[Any]:
    """Return all rows. Raises NoSink while the sink has not written yet."""
    if not database.exists():
        raise NoSink(f"there is no sink {database}")
    with closing(sqlite3.connect(database, timeout=10.0)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                raise NoSink(f"nothing was written to the sink {database}") from error
            if "no such column" in str(error):
                raise Unjudgeable(
                    f"the sink {database} was written by an earlier version of its pipeline: {error}",
                    hint="remove the sink and the checkpoint of its query",
                ) from error
            raise
