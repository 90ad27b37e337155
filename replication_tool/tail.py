"""The tail of a failover, as ``tideover show-op ID --tail -o json`` printed it, as records to write."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from replication_tool.errors import Refused
from replication_tool.producer import Record

InDoubt = Literal["refuse", "write", "skip"]
"""What becomes of records of which it is unknown whether the query had read them."""


def records_of(file: Path, topic: str, *, unread: bool = False, in_doubt: InDoubt = "refuse") -> Sequence[Record]:
    """The records that the standby lacked and still lacks, as they were; those not committed are left out.

    ``unread`` leaves out those that the query had read before it left, too: its sink has their results already. Raises
    Refused where the file is not such a report, and where ``in_doubt`` says nothing of those that it may have read.
    """
    try:
        tail = json.loads(file.read_text(encoding="utf-8"))["records"]
        wanted = [each for each in tail if each.get("committed", True) and not each["on_standby"]]
        doubtful = sum(each["read_before"] is None for each in wanted) if unread else 0
        if doubtful and in_doubt == "refuse":
            raise Refused(
                f"it is unknown whether the query has read {doubtful} of these {len(wanted)} records",
                hint="--in-doubt write writes them too, --in-doubt skip leaves them out; nothing was written",
            )
        left_out = {True, None} if in_doubt == "skip" else {True}
        return [_record(each, topic) for each in wanted if not (unread and each["read_before"] in left_out)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = f"make it: tideover show-op ID --tail -o json > {file.name}"
        raise Refused(f"{file} is not the tail of an operation: {error!r}", hint=hint) from error


def _record(reported: Any, topic: str) -> Record:
    headers = tuple((name, content(value)) for name, value in reported["headers"])
    return Record(topic, content(reported["key"]), content(reported["value"]), headers, reported["timestamp_ms"])


def content(reported: Any) -> bytes | None:
    """Bytes of a key, a value or a header as the report has them."""
    if isinstance(reported, dict):
        return base64.b64decode(reported["base64"])
    return None if reported is None else str(reported).encode()
