"""``init``: the first configuration, made from what the clusters answer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from orchestrator.cli import render
from orchestrator.cli.serve.inventory import create, found_below, said
from orchestrator.config.first_routes import FirstRoute, routes_between
from orchestrator.config.load import load
from orchestrator.errors import ConfigError, UsageError
from state.plain_text import amount
from streaming.errors import KafkaError

_LOOK_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What a cluster answered."""

    bootstrap: tuple[str, ...]
    id: str | None
    topics: frozenset[str]


@click.command()
@click.option("--cluster", "clusters", multiple=True, required=True, metavar="NAME=HOST:PORT[,HOST:PORT]",
              help="A cluster and its bootstrap servers, home first. At least two.")  # fmt: skip
@click.option("--checkpoints", "paths", multiple=True, type=click.Path(exists=True, path_type=Path), metavar="PATH",
              help="As inventory takes it: checkpoints or event logs, for the queries.")  # fmt: skip
@click.option("--application", metavar="NAME", help="The application of checkpoints that no event log is about.")
@click.option("--write", "file", type=click.Path(path_type=Path), default="tideover.yaml", show_default=True)
def init(clusters: tuple[str, ...], paths: tuple[Path, ...], application: str | None, file: Path) -> None:
    """Write a first configuration. Reads the id and the topics of each cluster, and changes nothing there.

    The id of each cluster is written down, so that no other cluster is taken for it later. A route is declared where
    the topics that the queries read are on the other cluster, by the same name or behind the first cluster's name and
    a dot. With --checkpoints also applications and queries. The file is checked before it appears, and an existing one
    is never overwritten. Exit 2: a cluster did not answer, or something could not be decided.

    \b
    Examples:
      tideover init --cluster east=localhost:19092 --cluster west=localhost:29092
      tideover init --cluster east=e1:9092,e2:9092 --cluster west=w1:9092 \\
        --checkpoints /data/shop/checkpoints --application shop
    """
    if file.exists():
        raise UsageError(f"{file} is there already", hint="name another file by --write, or move that one away")
    named = _named(clusters)
    answered = {name: look(name, servers) for name, servers in named.items()}
    _check_apart(answered)
    known: dict[str, dict[str, object]] = {"runners": {}, "queries": {}}
    topics: Collection[str] = ()
    if paths:
        from streaming.spark.inventory.candidates import configuration_of  # imported when needed: it reads no cluster

        found = found_below(paths, application)
        known = configuration_of(found, tuple(named))
        topics = sorted({topic for each in found if each.query in known["queries"] for t in each.topics for topic in t})
        for line in said(found):
            render.talk(line)
    routes, remarks = routes_between({name: each.topics for name, each in answered.items()}, topics)
    for remark in remarks:
        render.talk(remark)
    _write(file, answered, routes, known)
    render.talk(
        f"{file}: {amount(len(answered), 'cluster')}, {amount(len(routes), 'route')}, "
        f"queries: {len(known['queries'])}; "
        f"look through it, then: tideover -c {file} config check"
    )


def _named(clusters: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in clusters:
        name, equals, servers = each.partition("=")
        listed = tuple(server.strip() for server in servers.split(",") if server.strip())
        if not (name and equals and listed):
            raise UsageError(f"--cluster {each} is not NAME=HOST:PORT", hint="--cluster east=localhost:9092")
        if name in found:
            raise UsageError(f"--cluster names {name} twice", hint="each cluster has a name of its own")
        found[name] = listed
    if len(found) < 2:
        raise UsageError("one cluster has no standby", hint="name at least two by --cluster")
    return found


def look(name: str, servers: tuple[str, ...]) -> Answered:
    """A cluster's id and topics. Raises ``UsageError`` with what was wrong."""
    from pydantic import ValidationError  # imported when needed: help need not wait for it

    from state.settings.keys import Cluster
    from streaming.kafka.link import Link

    seen: list[str] = []
    try:
        cluster = Cluster.model_validate({"bootstrap": servers})
    except ValidationError as error:
        raise UsageError(f"--cluster {name}: {error.errors()[0]['msg']}") from None
    try:
        with Link(cluster, name=name, identify=lambda known: seen.append(known) if known is not None else None) as link:
            topics = frozenset(link.names(timeout=_LOOK_SECONDS))
    except KafkaError as error:
        raise UsageError(
            f"{name} did not answer: {error}",
            hint="init cannot log in: where TLS or a password is wanted, write the file by hand",
        ) from None
    return Answered(bootstrap=servers, id=seen[-1] if seen else None, topics=topics)


def _check_apart(answered: Mapping[str, Answered]) -> None:
    by_id: dict[str, str] = {}
    for name, each in answered.items():
        if each.id is not None and each.id in by_id:
            raise UsageError(
                f"{by_id[each.id]} and {name} are one cluster, by its id {each.id}", hint="correct the addresses"
            )
        if each.id is not None:
            by_id[each.id] = name


def _write(
    file: Path,
    answered: Mapping[str, Answered],
    routes: Sequence[FirstRoute],
    known: Mapping[str, Mapping[str, object]],
) -> None:
    """The file is checked under another name first: nothing half done is left."""
    whole = {
        "store": "sqlite:///tideover.db",
        "clusters": {
            name: {"bootstrap": list(each.bootstrap)} | ({} if each.id is None else {"id": each.id})
            for name, each in answered.items()
        },
        "routes": [each.as_yaml() for each in routes],
        **known,
    }
    text = yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)
    draft = file.with_name(f".{file.name}.draft")
    draft.unlink(missing_ok=True)
    create(draft, text)
    try:
        load(draft, {})
        create(file, text)
    except ConfigError as error:
        raise UsageError(f"what was found makes no configuration: {error}", hint=error.hint) from None
    finally:
        draft.unlink(missing_ok=True)
