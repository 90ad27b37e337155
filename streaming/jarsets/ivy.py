"""Runs the Ivy that pyspark ships: it makes locks, and fetches jars where no repository is configured.

Ivy's own cache is the download directory: the artifact pattern puts every jar flat into one folder. Its name can be
read back into its coordinate. A run that was cut short continues where it stopped. A separate retrieve step would copy
everything once more and show no progress until the end.
"""

import importlib.util
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from streaming.errors import JarError
from streaming.jarsets.coordinate import Coordinate, Watch, arrived
from streaming.java import java_home_binary

_WATCH_SECONDS = 2.0
_ATTEMPTS = 2

_SETTINGS = """\
<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={cache} artifactPattern="jars/[organisation]~[artifact]~[revision](~[classifier]).[ext]"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="central" m2compatible="true" timeoutConstraint="patient" {metadata}/></resolvers>
</ivysettings>
"""
_NO_METADATA = 'usepoms="false" useMavenMetadata="false"'

_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tideover" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def download(wanted: Iterable[Coordinate], work: Path, *, transitive: bool, watch: Watch) -> dict[Coordinate, Path]:
    """Download the wanted jars, with all they need at run time when transitive, and return every jar now in `work`.

    `watch` is called whenever a look every two seconds finds more.
    Raises JarError when not one jar could be brought.
    """
    coordinates = list(wanted)
    work.mkdir(parents=True, exist_ok=True)
    jars = work / "jars"
    log = work / "ivy.log"
    command = _command(coordinates, work, transitive=transitive)
    for _ in range(_ATTEMPTS):
        _run(command, log, jars, watch)
        if all((jars / coordinate.download_name).is_file() for coordinate in coordinates):
            break
    brought = arrived(work)
    if not brought:
        raise JarError(
            f"no jar could be fetched: {_complaint(log)}",
            hint="name a Maven repository or a folder of jars that this machine reaches: TIDEOVER_JARS_REPOSITORY",
        )
    return brought


def _command(wanted: list[Coordinate], work: Path, *, transitive: bool) -> list[str]:
    settings, module = work / "settings.xml", work / "ivy.xml"
    metadata = "" if transitive else _NO_METADATA
    settings.write_text(_SETTINGS.format(cache=quoteattr(str(work)), metadata=metadata), encoding="utf-8")
    dependencies = "\n".join(_dependency(coordinate, transitive=transitive) for coordinate in wanted)
    module.write_text(_MODULE.format(dependencies=dependencies), encoding="utf-8")
    java, main = str(java_home_binary()), "org.apache.ivy.Main"
    options = ["-settings", str(settings), "-ivy", str(module), "-confs", "default"]
    return [java, "-cp", f"{_pyspark_jars()}/*", main, *options]


def _dependency(wanted: Coordinate, *, transitive: bool) -> str:
    mapping = "default->runtime(*),master(*)" if transitive else "default->*"
    named = f'org="{wanted.group}" name="{wanted.artifact}" rev="{wanted.version}"'
    start = f'<dependency {named} transitive="{str(transitive).lower()}" conf="{mapping}"'
    if not wanted.classifier:
        return f"    {start}/>"
    classified = f'<artifact name="{wanted.artifact}" type="jar" ext="jar" m:classifier="{wanted.classifier}"/>'
    return f"    {start}>{classified}</dependency>"


def _run(command: list[str], log: Path, jars: Path, watch: Watch) -> None:
    """Run Ivy to its end; its exit code is not used, for the jars that arrived say more."""
    reported = 0
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            while True:
                try:
                    process.wait(timeout=_WATCH_SECONDS)
                except subprocess.TimeoutExpired:
                    sizes = [path.stat().st_size for path in jars.glob("*.jar")]
                    if len(sizes) > reported:
                        watch(reported := len(sizes), sum(sizes))
                else:
                    return
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _complaint(log: Path) -> str:
    """Return the line of Ivy's log that names the trouble."""
    lines = [line.strip(" :\t") for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    distinctive = [line for line in lines if re.search(r"not found$|Exception|FAILED|[Ee]rror|refused|timed out", line)]
    return (distinctive or [line for line in lines if line] or ["Ivy gave no reason"])[0]


def _pyspark_jars() -> Path:
    """Return pyspark's jar directory without importing pyspark, which would cost a second."""
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        jars = Path(folder) / "jars"
        if any(jars.glob("ivy-*.jar")):
            return jars
    raise JarError("cannot fetch jars: pyspark, which brings Ivy, is not installed here", hint="pip install pyspark")
