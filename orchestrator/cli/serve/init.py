"""``init``: the first configuration, made from what the clusters answer."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from orchestrator.cli import render
from orchestrator.cli.serve.inventory import create, found_below, said
from orchestrator.config.client_properties import ClientSecurity, read_client_properties
from orchestrator.config.first_routes import FirstRoute, routes_between
from orchestrator.config.load import load
from orchestrator.config.property_reading import FOLDER
from orchestrator.config.secret_files import secret_files
from orchestrator.errors import ConfigError, UsageError
from state.plain_text import amount
from streaming.errors import CredentialRefused, KafkaError

if TYPE_CHECKING:
    from state.settings.keys import Cluster, Tideover

_LOOK_SECONDS = 10.0
_LOGIN = "where it wants TLS or a login, name the file of Kafka's tools: --command-config NAME=FILE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What a cluster answered."""

    id: str | None
    topics: frozenset[str]


@click.command()
@click.option("--cluster", "clusters", multiple=True, required=True, metavar="NAME=HOST:PORT[,HOST:PORT]",
              help="A cluster and its bootstrap servers, home first. At least two.")  # fmt: skip
@click.option("--command-config", "files", multiple=True, metavar="[NAME=]FILE",
              help="A properties file of Kafka's own tools, for one cluster or for all others.")  # fmt: skip
@click.option("--checkpoints", "paths", multiple=True, type=click.Path(exists=True, path_type=Path), metavar="PATH",
              help="As inventory takes it: checkpoints or event logs, for the queries.")  # fmt: skip
@click.option("--application", metavar="NAME", help="The application of checkpoints that no event log is about.")
@click.option("--write", "file", type=click.Path(path_type=Path), default="tideover.yaml", show_default=True)
def init(
    clusters: tuple[str, ...], files: tuple[str, ...], paths: tuple[Path, ...], application: str | None, file: Path
) -> None:
    """Write a first configuration. Reads the id and the topics of each cluster, and changes nothing there.

    The id of each cluster is written down, so that no other cluster is taken for it later. A route is declared where
    the topics that the queries read are on the other cluster. Their names there are the same, or begin with the first
    cluster's name and a dot. With --checkpoints also applications and queries. The file is checked before it appears,
    and an existing one is never overwritten. Exit 2: a cluster did not answer, or something could not be decided.

    For TLS and logins, --command-config names the file that Kafka's tools take. Its secrets go into files of their
    own, in the folder secrets beside the configuration, which names them.

    \b
    Examples:
      tideover init --cluster east=localhost:19092 --cluster west=localhost:29092
      tideover init --cluster east=e1:9092,e2:9092 --cluster west=w1:9092 \\
        --checkpoints /data/shop/checkpoints --application shop
      tideover init --cluster east=e1:9093 --cluster west=w1:9093 \\
        --command-config east.properties --command-config west=west.properties
    """
    if file.exists():
        raise UsageError(f"{file} is there already", hint="name another file by --write, or move that one away")
    named = _named(clusters)
    secured = _secured(files, named)
    secrets = {name: text for each in secured.values() for name, text in each.files.items()}
    with secret_files(file.parent / FOLDER, secrets):
        groups = {name: _group(servers, secured.get(name)) for name, servers in named.items()}
        settings = _checked(file, _whole(groups, {}, (), {}), "the clusters cannot be configured")
        answered = {name: look(name, settings.clusters[name]) for name in named}
        _check_apart(answered)
        known, topics = _queries(paths, application, tuple(named))
        routes, remarks = routes_between({name: each.topics for name, each in answered.items()}, topics)
        for remark in remarks:
            render.talk(remark)
        whole = _whole(groups, {name: each.id for name, each in answered.items()}, routes, known)
        _checked(file, whole, "what was found makes no configuration")
        create(file, whole)
    if secrets:
        render.talk(f"{file.parent / FOLDER} has {amount(len(secrets), 'file')} with secrets; only you may read them")
    render.talk(
        f"{file}: {amount(len(answered), 'cluster')}, {amount(len(routes), 'route')}, "
        f"queries: {len(known.get('queries', ()))}; "
        f"look through it, then: tideover -c {file} config check"
    )


def _queries(
    paths: Sequence[Path], application: str | None, clusters: tuple[str, ...]
) -> tuple[dict[str, dict[str, object]], Collection[str]]:
    """Runners and queries of what lies below the paths, and the topics that these queries read."""
    if not paths:
        return {"runners": {}, "queries": {}}, ()
    from streaming.spark.inventory.candidates import configuration_of  # imported when needed: it reads no cluster

    found = found_below(paths, application)
    known = configuration_of(found, clusters)
    for line in said(found):
        render.talk(line)
    return known, sorted(
        {t for each in found if each.query in known["queries"] for topics in each.topics for t in topics}
    )


def _secured(files: Sequence[str], named: Mapping[str, tuple[str, ...]]) -> dict[str, ClientSecurity]:
    """By cluster, what the properties files say. Raises ``UsageError``, and ``ConfigError`` with a file's mistakes."""
    chosen: dict[str, Path] = {}
    common: list[Path] = []
    for each in files:
        name, equals, file = each.partition("=")
        if not equals or name not in named:
            common.append(Path(each))
        elif name in chosen:
            raise UsageError(f"--command-config names {name} twice", hint="one file says how a cluster is reached")
        else:
            chosen[name] = Path(file)
    if len(common) > 1:
        raise UsageError(
            f"{common[0]} and {common[1]} are both for each cluster",
            hint="--command-config east=FILE is for east alone",
        )
    chosen = {name: common[0] for name in named if common} | chosen
    found: dict[str, ClientSecurity] = {}
    for name, path in chosen.items():
        found[name] = read_client_properties(path, cluster=name, servers=named[name])
        if found[name].unused:
            render.talk(f"{path}: not needed for {name}: {', '.join(found[name].unused)}")
    return found


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


def look(name: str, cluster: "Cluster") -> Answered:
    """A cluster's id and topics. Raises ``UsageError`` with what was wrong."""
    from streaming.kafka.link import Link  # imported when needed: help need not wait for it

    seen: list[str] = []
    try:
        with Link(cluster, name=name, identify=lambda known: seen.append(known) if known is not None else None) as link:
            topics = frozenset(link.names(timeout=_LOOK_SECONDS))
    except KafkaError as error:
        said = str(error) if isinstance(error, CredentialRefused) else f"{name} did not answer: {error}"
        raise UsageError(said, hint=_LOGIN if cluster.security.protocol == "PLAINTEXT" else error.hint) from None
    return Answered(id=seen[-1] if seen else None, topics=topics)


def _check_apart(answered: Mapping[str, Answered]) -> None:
    by_id: dict[str, str] = {}
    for name, each in answered.items():
        if each.id is not None and each.id in by_id:
            raise UsageError(
                f"{by_id[each.id]} and {name} are one cluster, by its id {each.id}", hint="correct the addresses"
            )
        if each.id is not None:
            by_id[each.id] = name


def _group(servers: Sequence[str], secured: ClientSecurity | None) -> dict[str, object]:
    found: dict[str, object] = {"bootstrap": list(servers)}
    return found if secured is None or not secured.group else {**found, "security": dict(secured.group)}


def _whole(
    clusters: Mapping[str, Mapping[str, object]],
    ids: Mapping[str, str | None],
    routes: Sequence[FirstRoute],
    known: Mapping[str, Mapping[str, object]],
) -> str:
    """The text of the configuration."""
    whole = {
        "store": "sqlite:///tideover.db",
        "clusters": {name: {**each, **({"id": ids[name]} if ids.get(name) else {})} for name, each in clusters.items()},
        "routes": [each.as_yaml() for each in routes],
        **known,
    }
    return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)


def _checked(file: Path, text: str, wrong: str) -> "Tideover":
    """What the text means as that file. It is read under another name, of which nothing is left."""
    draft = file.with_name(f".{file.name}.draft")
    draft.unlink(missing_ok=True)
    create(draft, text)
    try:
        return load(draft, os.environ).settings
    except ConfigError as error:
        mistakes = list(error.mistakes) or [str(error)]
        raise ConfigError(f"{wrong}:", hint=error.hint, mistakes=mistakes) from None
    finally:
        draft.unlink(missing_ok=True)
