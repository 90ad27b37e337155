"""An application that knows nothing of Tideover, before a person's eyes: ``make demo JOB=examples/plain_job.py``.

The job is started by plain ``spark-submit`` through ``tideover submit``. The primary is killed under load, and both
queries are moved. Then the driver is killed and started again with the same arguments, and it reads the standby,
whatever broker its code names. The judge compares what producers were acknowledged with what both queries have.

A job gets ``BOOTSTRAP FOLDER`` and writes what ``examples/plain_job.py`` writes. The exit code is 0 when every record
counted once, 1 when not, 2 when the run broke or was ended.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from lab.configuration import changing
from lab.demo import free_ports, played
from lab.interrupt import handle_signals
from lab.scenario import Script, open_world
from lab.stage import Say, ScenarioFailed, Stage, stage
from streaming.jars import jar_paths
from streaming.spark.attach.attached import MOVED

APPLICATION = "shop"
QUERIES = ("archive", "totals")
ATTENDANT = "attend"
"""The verb that a driver's attendant runs."""
_RATE = 500
_CALM_SECONDS = 5.0
_LONGEST_SECONDS = 300.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Count:
    """What the sinks have, compared with what was acknowledged."""

    acknowledged: int
    lost: int
    repeated: int
    counted: int
    """Orders by ``totals``, whose state was kept."""

    @property
    def is_exact(self) -> bool:
        return (self.lost, self.repeated, self.counted) == (0, 0, self.acknowledged)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print; the exit code is the verdict."""
    parser = argparse.ArgumentParser(prog="python -m lab.own_job", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", type=Path, help="the script, such as examples/plain_job.py")
    parser.add_argument("--dir", default="build/own-job", help="everything goes here; emptied first")
    parser.add_argument("--base-port", type=int, help="first of 20 ports; default: 19092, or 20 that are free")
    options = parser.parse_args(arguments)
    directory = Path(options.dir)

    def act(say: Say) -> int:
        found = play(options.job.resolve(), directory, free_ports(options, say), say)
        print("\n" + "\n".join(page(found)))
        return 0 if found.is_exact else 1

    return played(directory, act)


def play(job: Path, directory: Path, base_port: int, say: Say) -> Count:
    """From an empty directory to the verdict. Raises StoryFailed."""
    with stage(directory, say) as on:
        open_world(on, Script(base_port=base_port))
        east, out = declare(on), on.world / APPLICATION
        controller = on.start_controller()
        shop = Shop(on, job, east, out)
        shop.start()
        traffic = on.start_traffic("east", _RATE, _LONGEST_SECONDS)
        _until(lambda: can_move(on), "tideover check: both queries could be moved", shop)
        time.sleep(_CALM_SECONDS)
        on.stop(traffic)
        time.sleep(_CALM_SECONDS)  # the replicator copies within a second: what it has not is lost with the cluster
        say("kill east")
        on.lab("kill", "east")
        say("tideover failover --all --to west --yes")
        code, _ = on.move("failover", "--all", "--to", "west", "--reason", "demo")
        if code:
            raise ScenarioFailed(f"tideover failover ended with exit code {code}: see commands.log")
        _traffic(on)
        _until(lambda: count(on.world, out).is_exact, "every record counted once on west", shop)
        say("kill -9 of the driver, and the same command again")
        shop.process.kill()
        shop.process.wait()
        shop.start()
        _traffic(on)
        _until(lambda: count(on.world, out).is_exact, "every record counted once behind the restart", shop)
        on.stop(shop.process)
        on.stop(controller)
        return count(on.world, out)


def declare(on: Stage) -> str:
    """The application's queries by their checkpoints; the servers that its code names."""
    with changing(on.config) as declared:
        declared["runners"] = {APPLICATION: {}}
        declared["queries"] = {
            name: {
                "attach": APPLICATION,
                "sources": {"orders": {"topics": ["orders"]}},
                "clusters": ["east", "west"],
                "checkpoint": str(on.world / APPLICATION / "checkpoints" / name),
            }
            for name in QUERIES
        }
    return ",".join(declared["clusters"]["east"]["bootstrap"])


@dataclass
class Shop:
    """The application, and who starts it again where its exit code says so."""

    on: Stage
    job: Path
    bootstrap: str
    out: Path
    is_attached: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark beside those of ``start``."""

    def start(self) -> None:
        """As its user does, with ``tideover submit --`` in front where Tideover is attached."""
        home = Path(pyspark.__file__).parent
        self.on.environment |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        jars = ",".join(str(path) for path in jar_paths(f"spark-{pyspark.__version__}"))
        small = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.driver.host=127.0.0.1",
                 "spark.driver.bindAddress=127.0.0.1")  # fmt: skip
        named = (*small, *(f"{key}={value}" for key, value in self.settings.items()))
        options = [word for each in named for word in ("--conf", each)]
        plain = (str(home / "bin" / "spark-submit"), "--master", "local[4]", "--jars", jars, *options, str(self.job),
                 self.bootstrap, str(self.out))  # fmt: skip
        if not self.is_attached:
            self.process = self.on.launch(self.out.name, *plain)
            return
        self.on.say(f"tideover submit -- spark-submit {os.path.relpath(self.job)} {self.bootstrap} FOLDER")
        self.process = self.on.start(
            APPLICATION, "orchestrator", "-c", str(self.on.config), "submit", "--application", APPLICATION, "--", *plain
        )

    def look(self) -> None:
        """What a scheduler does: an application that was moved is started again. Raises StoryFailed for other ends."""
        code = self.process.poll()
        if code == MOVED:
            self.on.say(f"the application ended with exit code {MOVED}, and is started again")
            self.start()
        elif code is not None:
            raise ScenarioFailed(f"the driver ended with exit code {code}: see {APPLICATION}.log")


def can_move(on: Stage) -> bool:
    return on.tideover("check", check=False)[0] == 0


def _traffic(on: Stage) -> None:
    on.lab("traffic", "--rate", str(_RATE), "--seconds", str(_CALM_SECONDS), "--to", "west")


def _until(holds: Callable[[], bool], what: str, shop: Shop) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not holds():
        shop.look()
        if time.monotonic() >= deadline:
            raise ScenarioFailed(f"not within {_LONGEST_SECONDS:g} s: {what}")
        time.sleep(_LOOK_SECONDS)
    shop.on.say(what)


def count(world: Path, out: Path) -> Count:
    """Compare."""
    lines = [line.split() for file in world.glob("acked/*.ids") for line in file.open()]
    acked = {int(words[0]) for words in lines if len(words) > 2 and words[2] != "-1"}
    archive, totals = out / "archive.txt", out / "totals.json"
    ids = [int(line.split()[1]) for line in archive.read_text().splitlines()] if archive.exists() else []
    counted: Mapping[str, Sequence[int]] = json.loads(totals.read_text(encoding="ascii")) if totals.exists() else {}
    return Count(
        acknowledged=len(acked),
        lost=len(acked - set(ids)),
        repeated=len(ids) - len(set(ids)),
        counted=sum(orders for orders, _ in counted.values()),
    )


def page(found: Count) -> list[str]:
    """The end, for a person."""
    return [
        f"{'acknowledged':<16}{found.acknowledged:>9,}",
        f"{'archive':<16}{found.lost:>9,} lost {found.repeated:>9,} repeated",
        f"{'totals':<16}{found.counted:>9,} counted",
        "",
        "verdict: " + ("every record counted once" if found.is_exact else "records were lost or repeated"),
    ]


if __name__ == "__main__":
    handle_signals()
    sys.exit(main())
