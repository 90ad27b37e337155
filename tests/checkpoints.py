"""Checkpoints made by hand for the tests, with the entries that Spark 4.2.0 writes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROVIDER = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
TopicOffsets = Mapping[str, Mapping[str, int]]
SourceOffset = TopicOffsets | Mapping[str, int] | int
"""A Kafka source's, a file source's or a rate source's."""


PLANNED_MS = 1_795_250_471_909
"""When a batch was planned, unless said otherwise."""


def offset_text(
    *sources: SourceOffset | None,
    version: int = 1,
    watermark_ms: int = 0,
    provider: str = "HDFSBacked",
    planned_ms: int = PLANNED_MS,
) -> str:
    """An entry of the offset log."""
    metadata: dict[str, Any] = {
        "batchWatermarkMs": watermark_ms,
        "batchTimestampMs": planned_ms,
        "conf": {"spark.sql.streaming.stateStore.providerClass": PROVIDER.format(provider)},
    }
    if version == 2:
        metadata["sourceMetadataInfo"] = {}
    texts = ["-" if source is None else json.dumps(source, separators=(",", ":")) for source in sources]
    lines = [f"{key}:{text}" for key, text in reversed(list(enumerate(texts)))] if version == 2 else texts
    return "\n".join([f"v{version}", json.dumps(metadata, separators=(",", ":")), *lines])


def commit_text(next_watermark_ms: int = 0, ids: object = None) -> str:
    """An entry of the commit log."""
    metadata: dict[str, Any] = {"nextBatchWatermarkMs": next_watermark_ms}
    if ids is not None:
        metadata["stateUniqueIds"] = ids
    return f"v{1 if ids is None else 2}\n" + json.dumps(metadata, separators=(",", ":"))


@dataclass
class CheckpointFolder:
    """A checkpoint that grows batch by batch; one source, topic ``orders``, two partitions, unless said otherwise."""

    path: Path
    version: int = 1
    watermark_ms: int = 0
    stores: Sequence[str] = ()
    """Kind of increment per stateful operator: ``delta`` or ``changelog``."""
    names: Sequence[str] = ("stateStoreSave", "dedupeWithinWatermark")
    planned: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.write("metadata", json.dumps({"id": "57794937-f4ce-472a-b26b-f64f1b7a6766"}))
        for operator in range(len(self.stores)):
            info = {"operatorId": operator, "operatorName": self.names[operator]}
            stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}]
            self.write(
                f"state/{operator}/_metadata/metadata",
                "v1\n" + json.dumps({"operatorInfo": info, "stateStoreInfo": stores}),
            )
            self.write(f"state/{operator}/0/_metadata/schema", "v3\nschema")

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def plan(self, batch: int, *sources: SourceOffset | None) -> None:
        """Write ``offsets/batch``; the default source moves on by 10 records a batch."""
        text = offset_text(*(sources or (orders(batch),)), version=self.version, watermark_ms=self.watermark_ms)
        self.write(f"offsets/{batch}", text)

    def commit(self, batch: int, *sources: SourceOffset | None, next_watermark_ms: int = 0) -> None:
        """Write ``offsets/batch``, the state after it and ``commits/batch``."""
        self.plan(batch, *sources)
        self.keep_state(batch + 1)
        self.write(f"commits/{batch}", commit_text(next_watermark_ms))

    def keep_state(self, version: int) -> None:
        for operator, kind in enumerate(self.stores):
            for partition in (0, 1):
                self.write(f"state/{operator}/{partition}/{version}.{kind}", f"state {version}")

    def text(self, name: str) -> str:
        return (self.path / name).read_text()

    def files(self) -> dict[str, str]:
        """Every file below the folder with its text."""
        return {
            path.relative_to(self.path).as_posix(): path.read_text()
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
        }


def orders(batch: int, shift: int = 0, topic: str = "orders") -> dict[str, dict[str, int]]:
    """The default source's end offsets of a batch, on a cluster whose offsets are ``shift`` higher."""
    return {topic: {"0": 10 * (batch + 1) + shift, "1": 20 * (batch + 1) + shift}}
