"""Build the companion's jar unless it is there, and print its path."""

import sys

from state.errors import TideoverError
from streaming.companion.jar import companion_jar


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Progress goes to stderr, the path to stdout."""
    try:
        print(companion_jar(_say))  # noqa: T201 - a program's answer
    except TideoverError as error:
        sys.stderr.write(f"{error}\n{error.hint}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
