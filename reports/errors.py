"""What can go wrong with reports.

ReportsError
├── DirtyTree    files differ from the commit that a report would name
├── NoCommit     no checkout of git, so no commit to name
└── NotStamped   a page without a stamp, or one that was changed after it was stamped
"""

from state.errors import TideoverError


class ReportsError(TideoverError):
    """The reports could not be made as asked."""

    kind = "reports"


class DirtyTree(ReportsError):
    """Files differ from the commit that the report would name."""

    kind = "dirty-tree"


class NoCommit(ReportsError):
    """There is no commit to name."""

    kind = "no-commit"


class NotStamped(ReportsError):
    """The page was not written by a generator, or was changed afterwards."""

    kind = "not-stamped"
