"""``history -f``: each event as it is written, until the reader or the person has enough."""

import json
from collections.abc import Callable, Mapping, Sequence

import yaml

from orchestrator.cli import render
from orchestrator.cli.staying import say, until_enough, wait
from orchestrator.clock import Clock
from orchestrator.tail import Read, Tail
from state.errors import StoreUnavailable
from state.model import Event

LOOK_SECONDS = 0.5

Row = Mapping[str, object]


def follow(
    read: Read, shape: Callable[[Event], Row], *, newest: int, columns: Sequence[str], output: str, clock: Clock
) -> None:
    """Print the ``newest`` events, then every one that comes.

    Returns on SIGINT, on SIGTERM, and when nobody reads any more: that is how following ends.

    One line an event: values in columns for people, tabs for TSV, one object a line for JSON, one document for YAML.
    """
    tail, begun, away = Tail(read, put_back=_talk_of_put_back), False, False
    with until_enough():
        if output == "tsv":
            say("\t".join(columns))
        while True:
            try:
                events = tail.news() if begun else tail.begin(newest)
                begun, away = True, False
            except StoreUnavailable as error:
                if not away:
                    render.talk(f"the store does not answer, waiting: {error}")
                events, away = (), True
            for event in events:
                say(_line(shape(event), columns, output))
            wait(clock, LOOK_SECONDS)


def _talk_of_put_back(told: int, ends: int) -> None:
    render.talk(f"the store was put back: its history ends with line {ends}, before {told} that was told")


def _line(row: Row, columns: Sequence[str], output: str) -> str:
    if output == "json":
        return json.dumps(row, ensure_ascii=False)
    if output == "yaml":
        return "---\n" + yaml.safe_dump(dict(row), sort_keys=False, allow_unicode=True).rstrip()
    cells = [render.cell(row.get(column), blank="" if output == "tsv" else "-") for column in columns]
    return ("\t" if output == "tsv" else "  ").join(cells)
