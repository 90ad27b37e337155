"""The reference page's chapter of verbs, printed from the verbs themselves: ``make docs``; a test guards the drift."""

from collections.abc import Iterator

import click

_HEAD = """# Reference

Printed by `make docs` from the program itself.

## Exit codes

| Code | Meaning |
|---|---|
| 0 | done; or already there, and nothing was done |
| 1 | refused by a gate |
| 2 | failed, or bad usage; `offsets`: a row has an error, the other rows are still right |
| 3 | unknown: the operation is still open (it is joined by the same command) |

Data goes to stdout, talk to stderr. With `-o json` an error is `{"error": {"kind", "text", "hint"}}`. Times are ISO
8601 in UTC; an unknown number is `null`, never 0.

## Phases of an operation

```mermaid
{phases}
```

## Verbs
"""


def page(root: click.Group, phases: str) -> str:
    """The whole page, in Markdown."""
    chapters = [f"### {name}\n\n```\n{text}\n```" for name, text in _verbs(root, ["tideover"])]
    return "\n\n".join([_HEAD.replace("{phases}", phases.rstrip()).rstrip(), *chapters]) + "\n"


def _verbs(group: click.Group, path: list[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(group.commands):
        command = group.commands[name]
        here = [*path, name]
        if isinstance(command, click.Group):
            yield from _verbs(command, here)
        else:
            context = click.Context(command, info_name=" ".join(here), terminal_width=100, max_content_width=100)
            yield " ".join(here), command.get_help(context)


if __name__ == "__main__":
    from orchestrator.cli.app import cli
    from orchestrator.decide.phases import diagram

    click.echo(page(cli, diagram()), nl=False)
