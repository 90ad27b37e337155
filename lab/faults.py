"""Faults, by signal, on a cluster, one of its brokers, or the replicator."""

import signal
import time

from lab.errors import Refused
from lab.java import Say
from lab.lifecycle import start_parts
from lab.processes import send
from lab.world import World

_LOOK_SECONDS = 0.01


def kill(world: World, name: str, say: Say) -> None:
    """SIGKILL, and wait until the kernel has ended them: who starts them next is to find them gone."""
    parts = world.parts(name)
    _signal(world, parts, signal.SIGKILL)
    while any(world.look(part) in ("running", "frozen") for part in parts):
        time.sleep(_LOOK_SECONDS)
    say(f"killed {name}")


def freeze(world: World, name: str, say: Say) -> None:
    """SIGSTOP: sockets stay open and nothing answers."""
    parts = world.parts(name)
    _refuse_if_none_runs(world, name, parts)
    _signal(world, parts, signal.SIGSTOP)
    say(f"froze {name}")


def thaw(world: World, name: str, say: Say) -> None:
    """SIGCONT."""
    parts = world.parts(name)
    _refuse_if_none_runs(world, name, parts)
    _signal(world, parts, signal.SIGCONT)
    say(f"thawed {name}")


def start(world: World, name: str, say: Say) -> None:
    """Start what is gone, on the data it had, and wait until it serves."""
    parts = world.parts(name)
    frozen = [part for part in parts if world.look(part) == "frozen"]
    if frozen:
        raise Refused(f"{', '.join(frozen)} is frozen, not gone", hint="thaw it")
    missing = [part for part in parts if world.look(part) != "running"]
    if missing:
        start_parts(world, missing, say)
    say(f"{name} runs")


FAULTS = {"kill": kill, "freeze": freeze, "thaw": thaw, "start": start}


def _signal(world: World, parts: list[str], number: signal.Signals) -> None:
    for part in parts:
        process = world.started.get(part)
        if process is not None:
            send(process, number)


def _refuse_if_none_runs(world: World, name: str, parts: list[str]) -> None:
    if all(world.look(part) in ("gone", "stopped") for part in parts):
        raise Refused(f"{name} is not running", hint=f"start it: python -m lab start {name} --dir {world.directory}")
