"""The jars of an application of a user: one job, in Java and in Scala (``tests/jobs``).

Scala is compiled by the compiler that the installed Spark ships, so its library is the one that the job finds there.
It is Maven's ``scala-compiler``, and pinned with Spark itself (``conf/locks``).
"""

import os
import subprocess
import zipfile
from pathlib import Path

import pyspark

from streaming.companion.jar import run_javac
from streaming.jars import jar_paths
from streaming.java import java_home_binary

JOBS = Path(__file__).parent / "jobs"
SPARK = Path(pyspark.__file__).parent / "jars"
JOB_CLASS = "OrdersJob"
_SECONDS = 600.0


def java_jar(folder: Path) -> Path:
    """Of ``OrdersJob.java``; loads on Java 8 and newer."""
    run_javac([JOBS / f"{JOB_CLASS}.java"], _against(), folder / "java")
    return _pack(folder / "java")


def scala_jar(folder: Path) -> Path:
    """Of ``OrdersJob.scala``."""
    classes = folder / "scala"
    classes.mkdir()
    compiler = [str(jar) for part in ("compiler", "library", "reflect") for jar in SPARK.glob(f"scala-{part}-*.jar")]
    against = [str(jar) for jar in _against()]
    command = [str(java_home_binary()), "-cp", os.pathsep.join(compiler), "scala.tools.nsc.Main", "-Xfatal-warnings"]
    command += ["-cp", os.pathsep.join(against), "-d", str(classes), str(JOBS / f"{JOB_CLASS}.scala")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"the job does not compile:\n{done.stdout}{done.stderr}"
    return _pack(classes)


def _against() -> list[Path]:
    return [*jar_paths(f"companion-{pyspark.__version__}"), *sorted(SPARK.glob("spark-*.jar"))]


def _pack(classes: Path) -> Path:
    made = classes.with_suffix(".jar")
    with zipfile.ZipFile(made, "w") as jar:
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, path.relative_to(classes))
    return made
