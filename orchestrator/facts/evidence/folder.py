"""The folder for documents outside the store."""

import os
import secrets
from pathlib import Path

from orchestrator.facts.evidence.chain import links
from orchestrator.facts.evidence.page import page
from state.private_files import make_private_folder, private_writer
from state.store.controller_store import ControllerStore


class Folder:
    """The folder to which a leader writes each document, as JSON and as a page; what is there already stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        """The last link whose files are known to be there."""

    def write(self, store: ControllerStore) -> int:
        """Write the documents that are not there yet; how many. Raises ``StoreError`` and ``OSError``."""
        made = 0
        for kept in links(store, self._written):
            if kept.document is not None:
                name = f"{kept.sequence:06d}-{kept.operation}"
                made += write_once(self._path / f"{name}.json", kept.document)
                write_once(self._path / f"{name}.html", page(kept))
            self._written = kept.sequence
        return made


def write_once(path: Path, text: str) -> bool:
    """Make a file whole or not at all; one that is there is not touched. Raises ``OSError``."""
    if path.exists():
        return False
    make_private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with private_writer(draft, is_new=True) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # unlike a rename it fails where the name is taken
        except FileExistsError:
            return False
        return True
    finally:
        draft.unlink(missing_ok=True)
