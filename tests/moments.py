"""Applications of users, of every kind, at a random moment of a fault under load: what became of each of their records.

All kinds run one job that knows nothing of Tideover (``tests/jobs``): as a script and as jars of Java and Scala, each
attached; as a script that its scheduler starts again and again and that reads what is there (``now``); and as a script
without our jar, which Tideover starts by its commands (``external``). The judge of the lab compares what producers were
acknowledged and what both clusters hold with what their sinks have. The sums of each ``totals`` are those of its state.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import pyspark
import yaml

from lab.world import CLUSTERS, TOPIC
from streaming.jars import jar_paths
from tests.applications import COMMANDS, QUERIES, SECONDS, Application, Scheduler
from tests.job_jars import JOB_CLASS, JOBS, java_jar, scala_jar
from tests.scene import Controller, Driver, Said, Typed
from tests.waiting import until
from tests.world import RunningWorld, running_world

KINDS = ("script", "java", "scala", "now", "external")
TENDER = "tender"
"""The runner of the application without our jar."""
SCRIPT = JOBS / "orders_job.py"
SINKS = {"archive": "batch-id", "totals": "keyed"}
_AFTER_SECONDS = 3.0
_BEHIND_SECONDS = 5.0
"""How old the standby's copies may be: what is older when the primary dies, is lost with it."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When what is struck."""

    fault: Literal["kill", "freeze"]
    loses_driver: bool
    """Each driver dies with the cluster, and is started again by who started it."""
    calm_seconds: float
    """Load on the primary, once all could be moved, before the fault."""
    decide_seconds: float
    """From the fault to the moment the failover is typed."""

    @classmethod
    def drawn(cls, seed: int) -> Self:
        """Of four seeds in a row each has another pair of fault and driver; the times are drawn."""
        draw = random.Random(seed)
        return cls(
            fault="freeze" if seed % 2 else "kill", loses_driver=seed % 4 >= 2,
            calm_seconds=draw.uniform(1.0, 5.0), decide_seconds=draw.uniform(0.3, 4.0),
        )  # fmt: skip


class Party(Protocol):
    """One application, and who starts it."""

    def begin(self) -> None:
        """Start it."""

    def lose_driver(self) -> None:
        """SIGKILL of all that its newest start is."""

    def end(self) -> None:
        """SIGKILL, for good."""

    def log(self) -> str:
        """Of its newest start."""


@dataclass
class Attached:
    """One with Tideover's jar, under a scheduler."""

    application: Application
    finishes: bool = False

    def begin(self) -> None:
        self._scheduler = Scheduler(self.application, ("once",) if self.finishes else (), repeats=self.finishes)
        self._scheduler.__enter__()

    def lose_driver(self) -> None:
        self._scheduler.kill()

    def end(self) -> None:
        self._scheduler.__exit__()

    def log(self) -> str:
        return self.application.log()


@dataclass
class External:
    """One without it, and the runner that starts it."""

    folder: Path
    config: Path
    tenders: list[Driver] = field(default_factory=list)

    def begin(self) -> None:
        self.tenders.append(Driver(self.config, TENDER))

    def lose_driver(self) -> None:
        with suppress(ProcessLookupError, FileNotFoundError):
            os.killpg(int((self.folder / "pid").read_text()), signal.SIGKILL)

    def end(self) -> None:
        for tender in self.tenders:
            tender.die()
        self.lose_driver()

    def log(self) -> str:
        job = self.folder / "job.log"
        said = job.read_text(encoding="utf-8", errors="replace") if job.exists() else ""
        return f"{self.tenders[-1].log()[-3000:]}\n{said}"


@dataclass
class Company:
    """Applications in one world, and what is known of them."""

    world: RunningWorld
    config: Path
    parties: Mapping[str, Party]

    def type(self, *words: str) -> Typed:
        return Typed(self.config, words)

    def await_ready(self) -> None:
        """Wait until each query could be moved, and none is far behind."""
        refused: list[str] = ["no plan was made"]

        def could_move() -> bool:
            said = self.type("plan", "failover", "--all", "--to", "west", "-o", "json").end(SECONDS)
            if said.code not in {0, 1}:
                refused[:] = [said.err]
                return False
            plans = json.loads(said.out)
            refused[:] = [f"{each['query']}: {gate['text']}" for each in plans for gate in each["gates"]
                          if gate["ok"] is False]  # fmt: skip
            refused.extend(f"{each['query']} has no position" for each in plans if not each["partitions"])
            ages = {each["query"]: each["totals"]["exposure_seconds"] for each in plans}
            refused.extend(f"{query}: its copies are {age} s old" for query, age in ages.items()
                           if age is None or age > _BEHIND_SECONDS)  # fmt: skip
            return not refused

        self._until(could_move, "each query could be moved", lambda: "; ".join(refused))

    def await_moved(self, failover: Said) -> None:
        """Wait until each query is on the standby, and no operation is open.

        A busy machine may not see the first commit in time. Then the failover ends with another code, and the query
        reads on there: what became of its records is judged.
        """
        rows: list[Any] = []

        def moved() -> bool:
            rows[:] = json.loads(self.type("list", "-o", "json").end(SECONDS).out)
            assert failover.code == 0 or all(each["cluster"] == "west" for each in rows), (
                f"{failover.err}{failover.out}"
            )
            return all((each["cluster"], each["operation"]) == ("west", None) for each in rows)

        self._until(moved, "each query is on the standby", lambda: str(rows))

    def announced(self, operations: Iterable[str]) -> dict[str, int | None]:
        """By query how many records its plan said that are read twice; None: unknown."""
        moves = (json.loads(self.type("show-op", each, "-o", "json").end(SECONDS).out) for each in operations)
        return {each["query"]: each["plan"]["totals"]["replay_records"] for each in moves}

    def judge(self) -> dict[str, dict[str, Any]]:
        """By query what the judge of the lab says."""
        declared = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        queries = {
            f"{kind}-{name}": {
                "pipeline": f"tests.jobs:{name}",
                "settings": {"sink": str(self._out(kind) / name), "topic": TOPIC},
                "sources": {"orders": {"topics": [TOPIC]}}, "clusters": list(CLUSTERS),
            }
            for kind in self.parties for name in QUERIES
        }  # fmt: skip
        judged = self.config.with_name("judged.yaml")
        known = {each: declared[each] for each in ("clusters", "routes")}
        judged.write_text(yaml.safe_dump(known | {"queries": queries}), encoding="utf-8")
        verdict = self.world.lab("verify", "--config", str(judged), "--wait", "240", "-o", "json", timeout=900)
        return dict(json.loads(verdict))

    def logs(self) -> str:
        """The end of each application's log."""
        return "\n".join(f"{kind}: {party.log()[-4000:]}" for kind, party in self.parties.items())

    def _out(self, kind: str) -> Path:
        folder = self.config.parent / kind
        return folder if kind == "external" else folder / "out"

    def _until(self, holds: Any, what: str, instead: Any) -> None:
        try:
            until(holds, what, seconds=SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {instead()}\n{self.logs()}") from None


def play(folder: Path, kinds: Sequence[str], moment: Moment, rate: int) -> None:
    """Strike these kinds in a world of their own; each record that reached the standby has to count once.

    No more may count twice than the plan announced: of a batch that ended as the cluster died no record may be known.
    Then a query with state is refused, and moves by consent; what its state has counted twice is not judged.
    """
    with company(folder, kinds) as on:
        traffic = on.world.start_traffic(rate=rate)
        for party in on.parties.values():
            party.begin()
        on.await_ready()
        time.sleep(moment.calm_seconds)
        on.world.lab(moment.fault, "east")
        if moment.loses_driver:
            for party in on.parties.values():
                party.lose_driver()
        traffic.send_signal(signal.SIGTERM)
        time.sleep(moment.decide_seconds)
        reason = ("--yes", "--reason", f"a random {moment.fault}", "--timeout", "300", "-o", "json")
        typed = on.type("failover", "--all", "--to", "west", *reason)
        after = on.world.start_traffic(to="west", rate=rate)
        moved = typed.end(2 * SECONDS)
        operations = list(json.loads(moved.out))
        refused = [each["query"] for each in operations if each["outcome"] == "refused"]
        if refused:
            moved = on.type("failover", *refused, "--to", "west", "--consent", "repeats", *reason).end(2 * SECONDS)
            operations += json.loads(moved.out)
        on.await_moved(moved)
        time.sleep(_AFTER_SECONDS)
        after.send_signal(signal.SIGTERM)
        for each in (traffic, after):
            each.wait(SECONDS)
        verdict = on.judge()
        announced = on.announced(each["id"] for each in operations)
        known = {query: row for query, row in verdict.items() if query not in refused}
        twice = {query: row["duplicated"] for query, row in known.items()}
        wrong = {query: row for query, row in known.items()
                 if row["lost"] or (announced[query] is not None and twice[query] > announced[query])}  # fmt: skip
        assert wrong == {}, f"{verdict}\nannounced: {announced}\n{on.logs()}"
        assert len(verdict) == len(kinds) * len(QUERIES)
        assert all(row["delivered"] for row in verdict.values()), verdict


@contextmanager
def company(folder: Path, kinds: Sequence[str]) -> Iterator[Company]:
    """A world with applications of these kinds, which have not been started."""
    with running_world(folder) as world, ExitStack() as ending:
        place = folder / "applications"
        place.mkdir()
        config = place / "tideover.yaml"
        config.write_text(yaml.safe_dump(_configuration(world, place, kinds), sort_keys=False), encoding="utf-8")
        parties = {kind: _party(kind, place, config, world.bootstrap("east")) for kind in kinds}
        controller = Controller(config, "one")
        ending.callback(controller.kill)
        for party in parties.values():
            ending.callback(party.end)
        yield Company(world, config, parties)


def _configuration(world: RunningWorld, place: Path, kinds: Sequence[str]) -> dict[str, Any]:
    known: dict[str, Any] = yaml.safe_load(world.config.read_text(encoding="utf-8"))
    app = str(place / "external" / "app")
    commands = {"start": [app, "start", "{bootstrap}"], "stop": [app, "stop"], "status": [app, "status"]}
    queries = {
        f"{kind}-{name}": {
            "sources": {"orders": {"topics": [TOPIC]}}, "clusters": list(CLUSTERS), "sink": sink,
            **(
                {"application": "external", "runners": [TENDER], "checkpoint": f"{place}/external/checkpoints/{name}"}
                if kind == "external"
                else {"attach": kind, "checkpoint": f"{place}/{kind}/out/checkpoints/{name}"}
            ),
        }
        for kind in kinds for name, sink in SINKS.items()
    }  # fmt: skip
    return known | {
        "queries": queries,
        "runners": {TENDER if kind == "external" else kind: {} for kind in kinds},
        "spark": {"master": "local[1]", "conf": {"spark.driver.host": "127.0.0.1"}},
        "http": "off",
        **({"applications": {"external": commands}} if "external" in kinds else {}),
    }


def _party(kind: str, place: Path, config: Path, bootstrap: str) -> Party:
    folder = place / kind
    folder.mkdir()
    if kind == "external":
        _write_commands(folder)
        return External(folder, config)
    makers = {"java": java_jar, "scala": scala_jar}
    jar = makers[kind](folder) if kind in makers else None
    attached = Application(
        folder, bootstrap, kind, script=jar or SCRIPT, job_class=JOB_CLASS if jar else None, declared=config
    )
    return Attached(attached, finishes=kind == "now")


def _write_commands(folder: Path) -> None:
    home, jars = Path(pyspark.__file__).parent, ",".join(map(str, jar_paths(f"spark-{pyspark.__version__}")))
    conf = {
        "spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
    }  # fmt: skip
    (folder / "spark.conf").write_text("".join(f"{key} {text}\n" for key, text in conf.items()), encoding="utf-8")
    submit = f"env PYSPARK_PYTHON={sys.executable} {home}/bin/spark-submit --master local[4]"
    app = folder / "app"
    text = COMMANDS.format(submit=f"{submit} --properties-file spark.conf", job=SCRIPT, checkpoints="")
    app.write_text(text, encoding="utf-8")
    app.chmod(0o755)
