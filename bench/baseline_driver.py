"""What a team does today, as a program of its own: a new driver that starts over at a guessed time, without its state.

One JSON argument: bootstrap, topic, partitions, time_ms, checkpoint, pipeline, settings, conf. It runs the very
pipeline that ours runs, in a session with the same settings, with ``startingOffsetsByTimestamp`` and a new checkpoint,
until it is ended. Who started it watches the checkpoint for the commit of the first batch.
"""

import json
import sys
from collections.abc import Sequence

from bench.plain_driver import pipeline, plain_session


def main(arguments: Sequence[str]) -> int:
    """Start the query and wait for its end; an error ends the process with its traceback."""
    wanted = json.loads(arguments[0])
    session = plain_session(wanted["conf"])
    starting = {wanted["topic"]: {str(number): wanted["time_ms"] for number in range(wanted["partitions"])}}
    frame = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", wanted["bootstrap"])
        .option("subscribe", wanted["topic"])
        .option("startingOffsetsByTimestamp", json.dumps(starting))
        .load()
    )
    writer = pipeline(wanted["pipeline"])({"orders": frame}, wanted["settings"])
    writer.trigger(processingTime="1 second").option(
        "checkpointLocation", wanted["checkpoint"]
    ).start().awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
