"""`tideover submit` becomes the real spark-submit, which takes the user's jars and plugins and ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from streaming.companion.jar import companion_jar
from tests.prometheus_tools import ROOT
from tests.served import ATTACHED
from tests.waiting import PROCESS_SECONDS

pytestmark = pytest.mark.real
JOB = "import sys\nprint('job', sys.argv[1:], flush=True)\nsys.exit(75)\n"


def test_jars_plugins_arguments_and_the_exit_code_are_those_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "tideover.yaml").write_text(ATTACHED, encoding="utf-8")
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    jar = tmp_path / "mine.jar"
    jar.write_bytes(companion_jar().read_bytes())
    (tmp_path / "spark.conf").write_text(f"spark.jars {jar}\nspark.plugins=their.Plugin\n", encoding="utf-8")
    home = Path(pyspark.__file__).parent
    ran = subprocess.run(
        [sys.executable, "-m", "orchestrator", "-c", tmp_path / "tideover.yaml", "submit", "--application", "a", "--",
         home / "bin" / "spark-submit", "--verbose", "--properties-file", tmp_path / "spark.conf",
         tmp_path / "job.py", "--jars", "none"],
        cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False,
        env=os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert "job ['--jars', 'none']" in ran.stdout, ran.stderr
    assert ran.returncode == 75
    said = ran.stdout + ran.stderr
    (jars,) = re.findall(r"^ +jars +(.+)$", said, re.MULTILINE)
    assert [Path(each.removeprefix("file:")).name for each in jars.split(",")] == ["mine.jar", "companion.jar"]
    assert "their.Plugin,tideover.AttachPlugin" in said
    assert f"{tmp_path}/tideover.yaml" in said
