"""Files for the secrets of a new configuration: their owner alone may read them, and none is ever overwritten."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import UsageError
from state.private_files import make_private_folder, private_writer


@contextmanager
def secret_files(folder: Path, texts: Mapping[str, str]) -> Iterator[None]:
    """Write a file for each text, by name. They stay if the block ends well; after an error, new ones are removed.

    A file that has this text already is left as it is, so that an interrupted command can be repeated. Raises
    ``UsageError`` where one holds something else or cannot be written.
    """
    if texts and not folder.absolute().parent.is_dir():
        raise UsageError(f"{folder.parent} is no folder", hint="make it, or name another file by --write")
    made: list[Path] = []
    is_new = not folder.exists()
    try:
        for name, text in texts.items():
            _write(folder, name, text, made)
        yield
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # it was never made, or holds what is not ours
                folder.rmdir()
        raise


def _write(folder: Path, name: str, text: str, made: list[Path]) -> None:
    path, draft = folder / name, folder / f".{name}.draft"
    try:
        make_private_folder(folder)
        if path.exists():
            if path.read_text(encoding="utf-8") != text:
                raise UsageError(f"{path} is there already, and holds something else", hint="move that file away")
            return
        draft.unlink(missing_ok=True)
        try:
            with private_writer(draft, is_new=True) as file:
                file.write(text)
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
        made.append(path)
    except (OSError, UnicodeError) as error:
        why = (error.strerror or "").lower() if isinstance(error, OSError) else "it is not valid UTF-8 text"
        raise UsageError(f"{path} cannot be written: {why}", hint="make room, or write to another folder") from None
