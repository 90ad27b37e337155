"""The last line of each report: facts for the index, and a checksum of all that is above. Pure.

What is changed by hand no longer agrees with the checksum. The line is a comment, so a reader of the page sees nothing.
"""

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from reports.errors import NotStamped

_LINE = re.compile(r"\n\n<!-- report (\{.*\}) sha256:([0-9a-f]{64}) -->\n\Z")


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What the index says of one report."""

    report: str
    """Its name; the page is ``docs/reports/NAME.md``."""
    command: str
    commits: tuple[str, ...]
    """One in what `make reports` publishes; pages that were put together by hand name several."""
    made: str
    machine: str
    judged: str
    """What decided that it is well, as a part of a sentence."""
    exposed: str
    """Records that were acknowledged and never came to the standby; ``-`` where no cluster dies."""
    stories: int
    unit: str
    """What ``stories`` counts: stories, scenarios, faults, positions, measurements."""
    broken: int
    """How many of them did not do what they should."""
    missing: tuple[str, ...] = ()
    """What belongs to it and was not run. Never published by `make reports`."""
    failed_before: int = 0
    """Runs on the same commit that failed before this one."""
    remark: str = ""

    @property
    def dirty(self) -> tuple[str, ...]:
        """The commits from which files differed."""
        return tuple(each for each in self.commits if each.endswith(("-dirty", "+changes")))


def stamped(body: str, stamp: Stamp) -> str:
    """The page with its stamp."""
    facts = json.dumps(dataclasses.asdict(stamp), ensure_ascii=False).replace(">", "\\u003e")
    text = body.rstrip("\n")
    return f"{text}\n\n<!-- report {facts} sha256:{_sum(text, facts)} -->\n"


def read(page: str) -> tuple[str, Stamp]:
    """A page without its stamp, and the stamp. Raises NotStamped."""
    found = _LINE.search(page)
    if found is None:
        raise NotStamped("the last line is no stamp: a generator did not write this page")
    body, facts = page[: found.start()], found[1]
    if _sum(body, facts) != found[2]:
        raise NotStamped("the page does not agree with its checksum: it was changed after it was made")
    try:
        told: dict[str, Any] = json.loads(facts)
        told = {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}
        return body, Stamp(**told)
    except (TypeError, ValueError) as error:
        raise NotStamped(f"the stamp is of another version: {error}") from error


def _sum(body: str, facts: str) -> str:
    return hashlib.sha256(f"{body}\n{facts}".encode()).hexdigest()
