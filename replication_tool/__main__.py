"""The command `tideover-replication`, also as ``python -m replication_tool``."""

import sys


def run() -> int:
    """Run the command line, or report in one line that its client of Kafka is not installed."""
    try:
        from replication_tool.cli import main
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        sys.stderr.write("confluent-kafka is not installed: pip install 'tideover[replication]'\n")
        return 2
    return main()


if __name__ == "__main__":
    sys.exit(run())
