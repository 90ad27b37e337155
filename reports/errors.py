"""What can go wrong with reports.

ReportsError
├── DirtyTree    files differ from the commit that a report would name
├── NoCommit     no checkout of git, so no commit to name
└── NoResult     a file that is no result of a command
"""

from state.errors import TideoverError


class ReportsError(TideoverError):
    """The reports could not be made as requested."""

    kind = "reports"


class DirtyTree(ReportsError):
    """Files differ from the commit that the report would name."""

    kind = "dirty-tree"


class NoCommit(ReportsError):
    """There is no commit to name."""

    kind = "no-commit"


class NoResult(ReportsError):
    """The file is missing, or a command did not write it."""

    kind = "no-result"
