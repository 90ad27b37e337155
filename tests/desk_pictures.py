"""The pictures of docs/images: ``python -m tests.desk_pictures FOLDER`` draws them anew, by a real Chromium.

The page is the product's own; the store behind it is filled as controllers and runners leave it, so that a cluster is
down and one query is not ready at the moment of the picture.
"""

import base64
import sys
import tempfile
from pathlib import Path

from state.model.cluster_status import Verdict
from state.model.entities import Phase
from state.store.sql.migrate import open_store
from tests.browsing import DESKTOP, PHONE, Browser, browsing
from tests.contract import samples
from tests.desk_scene import config_of, fill, judging, sample
from tests.served import OPERATOR, serving

QUERIES = ("fraud", "invoices", "revenue", "sessions", "stock", "users")
QUALITY = 60


def take(window: Browser, file: Path) -> None:
    """The window as it is, as WebP: a third of what PNG takes."""
    shot = window.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    file.write_bytes(base64.b64decode(shot["data"]))


def draw(folder: Path) -> None:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        store = open_store(f"sqlite:///{made}/t.db")
        term = fill(store, QUERIES)
        sample(store, term, "stock", age_ms=90_000, refused=True)
        moved = samples.operation(
            id="261124-083525-3fa92c71",
            query="fraud", phase=Phase.RESOLVING, actor="anna@http", reason="east is down", started_at=store.now(),
            sentence="the old run is stopped; looking up where 4 partitions resume on west", plan=None, parameters={},
        )  # fmt: skip
        said = samples.event(kind="hold", query="fraud", operation=moved.id, text="failover of fraud from east to west")
        held = samples.step(operation=moved.id, started_at=store.now())
        assert store.hold(moved, from_epoch=1, term=term, step=held, event=said)
        with judging(store, term) as verdicts, serving(Path(made), config=config_of(QUERIES)) as served:
            verdicts["east"] = Verdict.DOWN
            for name, size, dark in (("desk", DESKTOP, False), ("desk-phone", PHONE, True)):
                with browsing(served.port, size=size, dark=dark) as window:
                    window.log_in(OPERATOR)
                    window.shown("attention", "east is DOWN")
                    window.shown("live", "Live")
                    take(window, folder / f"{name}.webp")
        store.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
