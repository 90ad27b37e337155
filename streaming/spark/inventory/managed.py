"""What a cluster manager or a history server knows of Spark's applications, and what their drivers and logs add.

A manager knows names and states alone. The queries are in the event log: the history server hands it over, and a
driver that runs says where its own is. A driver says of its streaming queries nothing by its REST interface.
"""

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streaming.errors import ServiceTrouble
from streaming.rest import Service
from streaming.spark.inventory.candidates import Managed
from streaming.spark.inventory.event_logs import LoggedApplication, read_application
from streaming.spark.inventory.log_files import lines_of, logs_below
from streaming.spark.masters import history_server, standalone, yarn
from streaming.spark.masters.listing import ListedApplication

_DRIVER_SECONDS = 10.0
KINDS = {"yarn": "http://rm:8088", "standalone": "http://master:8080", "history": "http://history:18080"}
"""What ``--from`` takes, each with an address as an example."""
_LISTS: dict[str, Callable[[str], Iterator[ListedApplication]]] = {
    "yarn": yarn.applications,
    "standalone": standalone.applications,
    "history": history_server.applications,
}


def parse_source(text: str) -> tuple[str, str]:
    """The kind and the address of ``KIND:URL``. Raises ``ValueError`` with a sentence."""
    kind, _, address = text.partition(":")
    parts = [each.strip() for each in address.split(",")]
    if kind in KINDS and all(each.startswith(("http://", "https://")) and urlsplit(each).netloc for each in parts):
        return kind, address
    forms = ", ".join(f"{each}:{example}" for each, example in KINDS.items())
    raise ValueError(f"{text} names no source: it has one of the forms {forms}")


def read_managed(kind: str, address: str) -> Sequence[Managed]:
    """All applications that a source knows. Raises ``ServiceTrouble`` where it does not list them."""
    return [_read(kind, address, each) for each in _LISTS[kind](address)]


def _read(kind: str, address: str, listed: ListedApplication) -> Managed:
    try:
        if kind == "history":
            return Managed(listed, _from_archive(history_server.event_logs(address, listed), listed))
        if not listed.is_running:
            return Managed(listed, None, "it has ended: give its event log")
        if listed.tracking_url is None:
            return Managed(listed, None, "the master gives no address of its driver: give its event log")
        return _of_driver(listed, listed.tracking_url)
    except (ServiceTrouble, OSError, ValueError) as error:
        return Managed(listed, None, str(error))


def _from_archive(archive: bytes, listed: ListedApplication) -> LoggedApplication:
    """Raises ``ValueError`` and ``OSError``."""
    with tempfile.TemporaryDirectory(prefix="tideover-") as folder:
        try:
            with zipfile.ZipFile(io.BytesIO(archive)) as whole:
                if sum(each.file_size for each in whole.infolist()) > history_server.MOST_BYTES:
                    raise ValueError("its event log is too long to be fetched: give the directory of event logs")
                whole.extractall(folder)
        except zipfile.BadZipFile:
            raise ValueError("the history server hands over no archive of its event log") from None
        for _, files in reversed(logs_below(Path(folder))):
            return read_application(listed.tracking_url or listed.id, lines_of(files))
    raise ValueError("the history server hands over no event log")


def _of_driver(listed: ListedApplication, url: str) -> Managed:
    """What a driver says of its settings, and its event log where it is on this machine."""
    service = Service(url.rstrip("/"), what="a driver of Spark")
    found = service.query(f"/api/v1/applications/{listed.id}/environment", timeout=_DRIVER_SECONDS)
    version = service.query("/api/v1/version", timeout=_DRIVER_SECONDS)
    try:
        conf = {str(key): str(value) for key, value in found["sparkProperties"]}
        spark = str(version["spark"])
    except (KeyError, TypeError, ValueError):
        raise service.odd("its settings are not among its answers") from None
    logged = LoggedApplication(where=url, name=listed.name, id=listed.id, spark=spark, conf=conf)
    if conf.get("spark.eventLog.enabled") != "true":
        return Managed(listed, logged, "it writes no event log (spark.eventLog.enabled): give its checkpoints")
    folder = conf.get("spark.eventLog.dir", "/tmp/spark-events")
    path = Path(unquote(urlsplit(folder).path))
    if urlsplit(folder).scheme not in {"", "file"} or not path.is_dir():
        return Managed(listed, logged, f"its event log is in {folder}, which is not on this machine")
    logs = [files for log, files in logs_below(path) if listed.id in log.name]
    if not logs:
        return Managed(listed, logged, f"{folder} has no log of it")
    read = read_application(url, lines_of(logs[-1]))
    read.name, read.id = read.name or listed.name, listed.id
    return Managed(listed, read)
