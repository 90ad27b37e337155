"""A clock for stamps: it follows the host's, but is never set back."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from streaming.clocks import Clocks, ForwardClock

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Host:
    """A host's two clocks; ``ahead`` is how far the wall clock was set."""

    passed: float = 0.0
    ahead: float = 0.0

    def clock(self) -> ForwardClock:
        return ForwardClock(
            Clocks(monotonic=lambda: self.passed, wall=lambda: NOON.timestamp() + self.passed + self.ahead)
        )


def read(host: Host, clock: ForwardClock, passed: float, ahead: float = 0.0) -> float:
    """Seconds after noon that the clock shows, so many after the host began."""
    host.passed, host.ahead = passed, ahead
    return (clock() - NOON).total_seconds()


def test_the_clock_follows_the_host() -> None:
    host = Host()
    clock = host.clock()
    assert [read(host, clock, passed) for passed in (0, 1, 2.5)] == [0, 1, 2.5]
    assert clock().utcoffset() == timedelta(0)


def test_a_host_clock_set_back_runs_at_half_pace_until_it_is_caught_up() -> None:
    host = Host()
    clock = host.clock()
    read(host, clock, 0)
    assert [read(host, clock, passed, ahead=-3600) for passed in (1, 2, 3600)] == [0.5, 1, 1800]
    assert [read(host, clock, passed, ahead=-3600) for passed in (7200, 7201)] == [3600, 3601]


def test_where_the_host_is_set_right_again_it_is_right_at_once() -> None:
    host = Host()
    clock = host.clock()
    read(host, clock, 0)
    assert [read(host, clock, 10, ahead=-3600), read(host, clock, 11)] == [5, 11]


def test_where_the_host_is_set_forward_it_follows() -> None:
    host = Host()
    clock = host.clock()
    read(host, clock, 0)
    assert read(host, clock, 1, ahead=3600) == 3601


@pytest.mark.parametrize("wobble", [0.9, -0.9])
def test_a_wobble_neither_sets_it_back_nor_stays(wobble: float) -> None:
    host = Host()
    clock = host.clock()
    reported = [
        read(host, clock, passed, ahead=ahead) for passed, ahead in ((0, 0.0), (0.5, wobble), (1, 0.0), (10, 0.0))
    ]
    assert reported == sorted(reported)
    assert reported[-1] == 10
