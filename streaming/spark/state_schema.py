"""What a checkpoint holds its query to: the settings of its first batch, and the types of its state."""

import json
from collections.abc import Iterator, Mapping, Sequence

from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.operators import UNNAMED, Operator, read_operators
from streaming.spark.checkpoint.read import newest_commit, read_log_end
from streaming.spark.errors import EmptyCheckpoint, NotACheckpoint


def pinned(files: CheckpointFiles, checkpoint: str) -> Mapping[str, str]:
    """The settings that a checkpoint holds its query to, such as the format of its state; none before a first batch.

    Raises ``CheckpointError``.
    """
    try:
        end = read_log_end(files, checkpoint)
    except (EmptyCheckpoint, NotACheckpoint):
        return {}
    conf = json.loads(end.last.metadata).get("conf", {}) if end.last is not None else {}
    return {str(key): str(value) for key, value in conf.items()}


def misfit(files: CheckpointFiles, used: str, rehearsed: str) -> str | None:
    """Why a query with the state of ``rehearsed`` cannot continue from ``used``; None where nothing speaks against it.

    Nothing does where one of them has no committed batch, or where a Spark before 4.0 named no operators. Raises
    ``CheckpointError``.

    A standby runner may have other code or settings than the one that runs the query. Spark finds that out at the
    start, behind the commit of a move: an operator more or less, or another key or value of its state. The warm-up runs
    the plan of the query on a throw-away checkpoint; what Spark notes there of its state is compared with the
    checkpoint in use.
    """
    if newest_commit(files, used) is None or newest_commit(files, rehearsed) is None:
        return None
    old, new = read_operators(files, used), read_operators(files, rehearsed)
    if UNNAMED in {each.name for each in (*old, *new)}:
        return None
    if {each.id: each.name for each in old} != {each.id: each.name for each in new}:
        return f"the pipeline keeps state in {_named(new)}, and the checkpoint has state of {_named(old)}"
    for operator in old:
        before, now = _schemas(files, used, operator), _schemas(files, rehearsed, operator)
        for store in before.keys() & now.keys():
            for part, was, is_now in zip(("key", "value"), before[store], now[store], strict=False):
                if was != is_now:
                    return (
                        f"the {part} of the state of {operator.name} is {is_now} in the pipeline, "
                        f"and {was} in the checkpoint"
                    )
    return None


def _named(operators: Sequence[Operator]) -> str:
    return ", ".join(each.name for each in operators) or "no operator"


def _schemas(files: CheckpointFiles, checkpoint: str, operator: Operator) -> dict[str, list[str]]:
    """The types of key and value of each store of an operator, as Spark notes them beside its first partition."""
    folder = join(checkpoint, "state", str(operator.id), "0")
    found: dict[str, list[str]] = {}
    for store in operator.stores:
        beside = folder if store == "default" else join(folder, store)
        if "schema" in files.list_names(join(beside, "_metadata")):
            text = files.read_bytes(join(beside, "_metadata", "schema")).decode(errors="replace")
            found[store] = [_typed(schema) for schema in _json_objects(text)]
    return found


def _json_objects(text: str) -> Iterator[object]:
    """The JSON objects in a file that has lengths in between (``StateSchemaCompatibilityChecker``)."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            return
        yield value
        at = text.find("{", end)


def _typed(schema: object) -> str:
    """A schema as types alone: Spark lets names and comments differ."""
    if not isinstance(schema, dict):
        return str(schema)
    match schema.get("type"):
        case "struct":
            return f"({', '.join(_typed(field['type']) for field in schema.get('fields', ()))})"
        case "array":
            return f"array of {_typed(schema['elementType'])}"
        case "map":
            return f"map of {_typed(schema['keyType'])} to {_typed(schema['valueType'])}"
        case other:
            return _typed(schema.get("sqlType", other)) if other == "udt" else _typed(other)
