"""A world's file, its ports and its configuration; traffic's shape; the ledger of what was acknowledged."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import yaml

from lab import configuration, ledger, processes
from lab.world import Options, World
from state.settings.keys import Resume, Tideover


def test_the_written_configuration_is_what_the_product_accepts(tmp_path: Path) -> None:
    world = World(directory=tmp_path, options=Options())
    configuration.write(world)
    settings = Tideover.model_validate(yaml.safe_load(world.configuration.read_text(encoding="utf-8")))
    assert set(settings.queries) == {"revenue", "orders", "archive", "latest"}
    assert settings.queries["latest"].resume is Resume.FRESH
    assert settings.routes[0].heartbeats == "east.heartbeats"


def test_a_process_is_known_by_pid_and_start_and_no_stranger_is_signalled() -> None:
    own = processes.identify(os.getpid())
    assert own is not None
    assert processes.look(own) == "running"
    stranger = replace(own, started=own.started + "1")
    assert processes.look(stranger) == "gone"
    assert not processes.send(stranger, signal.SIGCONT)


def test_the_ledger_returns_its_notes_by_run_without_a_half_line(tmp_path: Path) -> None:
    for _ in range(2):
        run = ledger.take_run(tmp_path)
        with ledger.Ledger(tmp_path, "orders", run, "east") as noted:
            noted.note(ledger.Sent(run, 0, 7, 99))
    with (tmp_path / "orders.2.east.ids").open("a") as file:
        file.write("3 0 8")
    for topic, run, place in (("orders.eu", 3, "east"), ("orders", 10, "east"), ("orders", 4, "west")):
        with ledger.Ledger(tmp_path, topic, run, place) as other:
            other.note(ledger.Sent(run, 0, ledger.UNKNOWN_OFFSET, 99))
    assert [each.id for each in ledger.read(tmp_path, "orders", "east")] == [1, 2, 10]
    assert [each.id for each in ledger.read(tmp_path, "orders", "west")] == [4]
    assert [each.acknowledged for each in ledger.read(tmp_path, "orders.eu", "east")] == [False]
    assert ledger.topics(tmp_path, "east") == {"orders", "orders.eu"}
    assert ledger.topics(tmp_path, "west") == {"orders"}
