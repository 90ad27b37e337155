"""One gate's answer: a name, whether it holds, the measured number, the limit and a sentence."""

from dataclasses import dataclass

UNKNOWN = "unknown"
"""What a gate has measured when it could not measure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One check's answer; ``text`` is a sentence for people."""

    name: str
    ok: bool
    measured: str
    limit: str
    text: str

    def as_json(self) -> dict[str, object]:
        """The gate as DESIGN's plan shows it."""
        return {"name": self.name, "ok": self.ok, "measured": self.measured, "limit": self.limit, "text": self.text}


def answer(name: str, ok: bool, measured: object, limit: object, good: str, bad: str) -> Gate:
    return Gate(name=name, ok=ok, measured=str(measured), limit=str(limit), text=good if ok else bad)
