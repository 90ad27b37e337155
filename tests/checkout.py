"""A small git repository for tests of what reads git: commits and changed files."""

import os
import subprocess
from pathlib import Path


class Checkout:
    """A repository with one product commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")
        (root / ".gitignore").write_text("build/\n", encoding="utf-8")
        self.commit("state/model/entities.py")

    def write(self, path: str) -> None:
        """Add a line to a file."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:
            out.write("line\n")

    def commit(self, *paths: str) -> str:
        """Change files, and commit all that is there; returns the short id."""
        for path in paths:
            self.write(path)
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message", "A change")
        return self.head()

    def head(self) -> str:
        """The short id of what is checked out."""
        return self._git("rev-parse", "HEAD")[:12]

    def _git(self, *arguments: str) -> str:
        who = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=os.environ | who | plain, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()
