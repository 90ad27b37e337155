"""Faults, by signal, on a cluster, one of its brokers, or the replicator; each says when it was done."""

import signal
from datetime import UTC, datetime

from lab import processes
from lab.errors import Refused
from lab.java import Say
from lab.lifecycle import start_parts
from lab.processes import Process
from lab.world import World


def kill(world: World, name: str, say: Say) -> datetime:
    """SIGKILL; what is gone already stays gone. Returns once all is: who starts it next is to find it gone."""
    struck_at = _signal(world, world.parts(name), signal.SIGKILL)
    processes.await_gone(_started(world, world.parts(name)))
    say(f"killed {name}")
    return struck_at


def freeze(world: World, name: str, say: Say) -> datetime:
    """SIGSTOP: sockets stay open and nothing answers."""
    parts = world.parts(name)
    _refuse_if_none_runs(world, name, parts)
    struck_at = _signal(world, parts, signal.SIGSTOP)
    say(f"froze {name}")
    return struck_at


def thaw(world: World, name: str, say: Say) -> datetime:
    """SIGCONT."""
    parts = world.parts(name)
    _refuse_if_none_runs(world, name, parts)
    thawed_at = _signal(world, parts, signal.SIGCONT)
    say(f"thawed {name}")
    return thawed_at


def start(world: World, name: str, say: Say) -> datetime:
    """Start what is gone, on the data it had, and wait until it serves."""
    parts = world.parts(name)
    frozen = [part for part in parts if world.look(part) == "frozen"]
    if frozen:
        raise Refused(f"{', '.join(frozen)} is frozen, not gone", hint="thaw it")
    missing = [part for part in parts if world.look(part) != "running"]
    if missing:
        start_parts(world, missing, say)
    say(f"{name} runs")
    return datetime.now(UTC)


FAULTS = {"kill": kill, "freeze": freeze, "thaw": thaw, "start": start}


def _signal(world: World, parts: list[str], number: signal.Signals) -> datetime:
    """When it was sent."""
    for process in _started(world, parts):
        processes.send(process, number)
    return datetime.now(UTC)


def _started(world: World, parts: list[str]) -> list[Process]:
    return [process for part in parts if (process := world.started.get(part)) is not None]


def _refuse_if_none_runs(world: World, name: str, parts: list[str]) -> None:
    if all(world.look(part) in ("gone", "stopped") for part in parts):
        raise Refused(f"{name} is not running", hint=f"start it: python -m lab start {name} --dir {world.directory}")
