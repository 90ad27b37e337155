"""What the documents say of the program, printed by the program: ``make docs``; a test guards the drift.

``python -m orchestrator.cli.reference`` prints the page of verbs, ``... phases`` the chapter on phases, and
``... write FOLDER`` puts both where they belong.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from orchestrator.decide.phases import diagram, meanings

_HEAD = """# Reference

Printed by `make docs` from the program itself.

## Exit codes

| Code | Meaning |
|---|---|
| 0 | done; already there; or the move awaits the next start of its application |
| 1 | refused by a gate, or you answered no; the query stayed, or its move was undone (others of a group may move) |
| 2 | failed, or bad usage; `offsets`: a row has an error, the other rows are valid |
| 3 | unknown: the operation is still open (run the same command again to join it), or the command was interrupted |
| 75 | `spark-submit` with the plugin only: a move had to stop a query; the scheduler starts the application again |
| 78 | `run` and `control` only: the configuration has mistakes; correct them before you start the service again |

Data goes to stdout, messages to stderr; [for programs](programs.md) shows the JSON of each verb. A verb does not
stop when its reader goes away (`| head`).

## Verbs
"""


_PHASES = """{begin}
```mermaid
{diagram}
```

{meanings}
{end}"""
_BEGIN, _END = "<!-- printed by make docs: phases -->", "<!-- end of what is printed -->"


def phases() -> str:
    """The table of phases as a diagram and in words, between the marks that ``with_phases`` looks for."""
    return _PHASES.format(begin=_BEGIN, diagram=diagram().rstrip(), meanings=meanings().rstrip(), end=_END)


def with_phases(text: str) -> str:
    """A document with its chapter on phases printed again. Raises ``ValueError`` where it has no place for it."""
    replaced, places = re.subn(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", lambda _: phases(), text, flags=re.DOTALL)
    if places != 1:
        raise ValueError(f"expected one place for the phases, marked by {_BEGIN} and {_END}; found {places}")
    return replaced


def page(root: click.Group) -> str:
    """The whole page of verbs, in Markdown."""
    settings: dict[str, Any] = {**root.context_settings, "terminal_width": 100, "max_content_width": 100}
    top = click.Context(root, info_name="tideover", **settings)
    chapters = [f"### {verb}\n\n```\n{text}\n```" for verb, text in _verbs(root, top)]
    return "\n\n".join([_HEAD.rstrip(), *chapters]) + "\n"


def _verbs(group: click.Group, above: click.Context) -> Iterator[tuple[str, str]]:
    for name in sorted(group.list_commands(above)):
        command = group.get_command(above, name)
        assert command is not None, f"{name} is listed"
        here = click.Context(command, info_name=name, parent=above)
        if isinstance(command, click.Group):
            yield from _verbs(command, here)
        else:
            yield here.command_path, command.get_help(here)


def main(arguments: list[str]) -> None:
    """Print the page, or the chapter on phases, or write both into a folder of documents."""
    from orchestrator.cli.app import cli  # imported when needed: the verbs know nothing of their page

    match arguments:
        case []:
            click.echo(page(cli), nl=False)
        case ["phases"]:
            click.echo(phases())
        case ["write", folder]:
            Path(folder, "reference.md").write_text(page(cli), encoding="utf-8")
            concepts = Path(folder, "concepts.md")
            concepts.write_text(with_phases(concepts.read_text(encoding="utf-8")), encoding="utf-8")
        case _:
            raise SystemExit("usage: python -m orchestrator.cli.reference [phases | write FOLDER]")


if __name__ == "__main__":
    main(sys.argv[1:])
