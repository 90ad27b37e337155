"""What holds of a checkpoint wherever it may be; the module of each store runs it there."""

from concurrent.futures import ThreadPoolExecutor

from streaming.spark.checkpoint.files import CheckpointFiles, join

ROUNDS, WRITERS = 15, 8


def assert_one_gets_the_name(files: CheckpointFiles, folder: str) -> None:
    """Of eight writers of the same content, in each round."""
    for number in range(ROUNDS):
        path = join(folder, "commits", str(number))
        with ThreadPoolExecutor(WRITERS) as pool:
            won = list(pool.map(lambda _, path=path: files.create_atomically(path, b"v1\n{}"), range(WRITERS)))
        assert sum(won) == 1, f"{sum(won)} of {WRITERS} writers believe that {path} is theirs"


def assert_keeps_a_tree(files: CheckpointFiles, folder: str, odd: str = "c; isDirectory=true") -> None:
    """Files are listed, copied, read and deleted; one has an odd name."""
    expected = {name: len(name) for name in ("a", "sub/b", f"sub/deeper/{odd}")}
    for name in expected:
        files.replace(join(folder, "from", name), name.encode())
    assert files.walk(join(folder, "from")) == expected
    assert list(files.list_names(join(folder, "from"))) == ["a", "sub"]
    files.copy((join(folder, "from", name), join(folder, "to", name)) for name in expected)
    assert files.walk(join(folder, "to")) == expected
    assert files.read_bytes(join(folder, "to", "sub/b")) == b"sub/b"
    assert files.size(join(folder, "to", "a")) == 1
    assert files.exists(join(folder, "to", "sub"))
    assert not files.is_link(join(folder, "to", "a"))
    assert files.delete(join(folder, "to"), recursive=True)
    assert files.walk(join(folder, "to")) == {}
    assert list(files.list_names(join(folder, "none"))) == []
    assert not files.delete(join(folder, "none"))
