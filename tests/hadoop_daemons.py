"""Hadoop's own daemons, as processes of a test, from the jars that Hadoop publishes for tests."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from streaming.jars import jar_paths, java_home_binary

_LOG = """log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


def configure(folder: Path, settings: Mapping[str, object], names: Sequence[str]) -> None:
    """Write the settings as ``conf/NAME.xml``, for daemons of this folder and their clients."""
    values = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
    rows = (f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in values.items())
    text = f"<configuration>{''.join(rows)}</configuration>"
    (folder / "conf").mkdir(parents=True)
    for name in names:
        (folder / "conf" / f"{name}.xml").write_text(text, encoding="utf-8")
    (folder / "conf" / "log4j.properties").write_text(_LOG, encoding="ascii")


@contextmanager
def running_daemon(
    folder: Path, name: str, main: str, *arguments: str, heap_mb: int = 256
) -> Iterator["subprocess.Popen[bytes]"]:
    """A daemon by its class, with what ``configure`` has written; its output goes to ``NAME.log``."""
    path = ":".join(map(str, (folder / "conf", *jar_paths("hadoop-3.5.0"))))
    java = java_home_binary()
    options = (
        f"-Xmx{heap_mb}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.lang=ALL-UNNAMED",
    )  # fmt: skip
    environment = {**os.environ, "JAVA_HOME": str(java.resolve().parent.parent)}
    with (folder / f"{name}.log").open("wb") as log:
        command = [str(java), *options, "-cp", path, main, *arguments]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        yield process
    finally:
        process.kill()  # an orderly stop takes ten seconds
        process.wait()
