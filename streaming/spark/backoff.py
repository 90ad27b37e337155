"""Pauses between the starts of a query that fails; pure."""

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0


def pause_seconds(failures: int) -> float:
    """How long to wait after so many failures in a row: 0.5 s, doubled each time, at most 30 s."""
    if failures < 1:
        return 0.0
    return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 16))
