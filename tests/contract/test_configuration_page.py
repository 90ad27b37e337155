"""The page on configuration names every key of the settings with its default, and no other key."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from orchestrator.decide.desk.status import state_of
from state.model.entities import RunState
from state.settings.keys import MethodName, Sink, Tideover
from state.settings.values import write_duration
from tests.contract.test_docs import ROOT

PAGE = ROOT / "docs" / "configuration.md"
OWN = re.compile(r"queries\.NAME\.(policy|timeline)\.\w+")
"""What a query says differently: its default is the common one."""


def keys_of(group: type[BaseModel], path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in group.model_fields.items():
        here = path + (field.alias or name)
        below = list(groups_of(field.annotation))
        for inner, step in below:
            yield from keys_of(inner, f"{here}{step}.")
        if not below:
            yield here, field


def groups_of(kind: object) -> Iterator[tuple[type[BaseModel], str]]:
    """The groups that a value may hold, and how a path leads into them."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind, ""
    step = {dict: ".NAME", tuple: "[]"}.get(get_origin(kind), "")  # type: ignore[arg-type] # None has no step
    for part in get_args(kind):
        for group, rest in groups_of(part):
            yield group, step + rest


def default_of(path: str, field: FieldInfo) -> str:
    """As the page writes it."""
    if own := OWN.fullmatch(path):
        return f"as `{own[1]}`"
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value == tuple(MethodName):
        return "all"
    if value in (None, (), SecretStr("")):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, timedelta):
        return f"`{write_duration(value)}`"
    return f"`{value.value if isinstance(value, StrEnum) else value}`"


def table_behind(text: str, heading: str) -> Mapping[str, tuple[str, ...]]:
    """The rows of the first table behind a heading, by what is in back-ticks in their first cell."""
    _, found, rest = text.partition(heading)
    assert found, f"there is no {heading}"
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    return {key: tuple(rest.split(" | ")) for key, rest in rows}


def test_the_page_names_every_key_with_its_default_and_no_other() -> None:
    said = {key: cells[0] for key, cells in table_behind(PAGE.read_text(encoding="utf-8"), "## All keys").items()}
    assert said == {path: default_of(path, field) for path, field in keys_of(Tideover)}


def test_the_page_names_every_state_that_list_shows() -> None:
    said = table_behind(PAGE.read_text(encoding="utf-8"), "## States that `list` shows")
    words = set(re.findall(r"``(never-run|stuck|held|waiting|silent)``", state_of.__doc__ or ""))
    assert said.keys() == words | {state.value for state in RunState}


@pytest.mark.parametrize("sink", Sink)
def test_the_page_says_what_each_sink_is_for(sink: Sink) -> None:
    section = (
        PAGE.read_text(encoding="utf-8").partition("## Choose the sink")[2].partition("What a wrong value costs")[0]
    )
    assert re.search(rf"^\| .* \| (`[a-z-]+`, or )?`{sink.value}`", section, re.MULTILINE)
