"""``jar``: the companion's jar, for an application that attaches itself."""

import click

from orchestrator.cli import render


@click.command()
def jar() -> None:
    """Print the path of the companion's jar, which serves every Spark line that Tideover supports.

    Needs no configuration. In a clone whose Java was changed it builds the jar first, with a JDK.

    \b
    Examples:
      tideover jar
      spark-submit --jars "$(tideover jar)" --conf spark.plugins=tideover.AttachPlugin ... job.py
    """
    from streaming.companion.jar import companion_jar  # imported when needed: it reads what the jar is made from

    render.say(str(companion_jar(render.talk)))
