"""Documents, messages, docstrings, comments and test names use standard words and short sentences.

A dialect word has a standard word. A long sentence has more than ``LONGEST`` words.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.contract.test_docs import PAGES, ROOT

DIALECT = re.compile(
    r"\b(told|tells?|telling|asks?|asked|asking|whoever|somebody|someone|nobody|by itself|by themselves"
    r"|stands(?! (?:for|by)\b)|stood"
    r"|go on|goes on|went on|going on|heed(?:s|ed|ing)?|in vain|anew|meanwhile|story|stories|turned round|viewpoint)\b",
    re.IGNORECASE,
)
"""Words with a standard word: continue for go on, report or print for tell, request for ask, a name for somebody."""
LONGEST = 30
"""Words of a sentence. Only a full stop, a question mark and an exclamation mark end one."""
JUDGED = [*PAGES, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]
PROGRAMS = (
    "bench", "chaos", "conf", "examples", "lab", "orchestrator", "replication_tool", "reports", "state", "streaming",
    "tests/alignment", "tests/long", "tests/worlds",
)  # fmt: skip
"""Their messages, docstrings and comments are judged."""
NOT_PROSE = re.compile(r"\b(SELECT|INSERT INTO|CREATE TABLE|NEW\.\w+)\b|</\w+>|/>|; \}| && ")
"""SQL, XML, CSS and shell in a string."""
CODE = re.compile(r"(`+)\w+\1")
"""The name of something in the program, which no reader takes for a word."""
SETTINGS = [
    ROOT / name for name in ("conf", "orchestrator/http/pages/templates", "Makefile", "Dockerfile", "pyproject.toml")
]
"""Configuration, manifests, units, templates and scripts: their comments and texts have no dialect word."""
CODE_FOLDERS = (
    "bench",
    "chaos",
    "conf",
    "examples",
    "lab",
    "orchestrator",
    "replication_tool",
    "reports",
    "state",
    "streaming",
)
"""Their identifiers, and those of the tests, are judged."""
NAMES = re.compile(
    r"(?<!\.)\b\w*(?:told|tell|ask|story|stories|stands|stood|heed|anew|meanwhile|nobody|somebody)\w*", re.IGNORECASE
)
WORD_OF_NAME = re.compile(
    r"told|untold|tells?|telling|asks?|asked|asking|unasked|story|stories|stands|stood|heed|heeds|heeded|anew|meanwhile"
    r"|nobody|somebody"
)
STORED = frozenset({"asked_at", "asked_at_ms", "told_at"})
"""Columns of the store and keys of its documents."""
END = re.compile(r"(?<=[.?!])[)\"*_]*\s+(?=[A-Z\"'`(\[*])")
"""Of a sentence, before the begin of the next one."""
LEFT = {"java": 15}
"""By package: so many sentences are still longer. A limit is only lowered."""
PYTHON_TEXT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|\'{3}(?:\\.|[^\\])*?\'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>\#[^\n]*)''',
    re.DOTALL,
)
"""A string or a comment of Python before 3.12, for which the standard tokenizer takes twenty times as long."""
JAVA_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def prose(page: Path) -> str:
    """The text without blocks of commands, and links as their words."""
    text = re.sub(r"^ *```.*?^ *```", "\n\n", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))


def sentences(text: str) -> list[str]:
    """Of paragraphs, items, cells of tables and headings."""
    parts = re.split(
        r"\n\s*\n|\n(?=\s*[-*#|@] ?)|\n(?=\s*\d+\. )|\n\s*[│├└]|\n(?=\s*tideover[ -])|\n(?=\s*\w+ {2,}\S)|(?<!\\)\|",
        text,
    )
    return [each for part in parts for each in END.split(" ".join(part.split())) if each]


def too_long(text: str) -> list[str]:
    return [each for each in sentences(text) if len(re.findall(r"[\w`'-]+", each)) > LONGEST]


def literals(tree: ast.Module) -> Iterator[str]:
    """Strings of several words and docstrings; each value that is put into a message counts as a word."""
    nodes = list(ast.walk(tree))
    in_messages = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in in_messages:
            yield node.value


def comments_of(source: str) -> str:
    """Comments that follow each other are one paragraph."""
    found: list[str] = []
    ended = 0
    for match in PYTHON_TEXT.finditer(source):
        if match["comment"]:
            is_next = source.count("\n", ended, match.start()) == 1 and ended
            found.append(("" if is_next else "\n") + match["comment"].lstrip("# "))
            ended = match.end()
    return "\n".join(found)


def of_python(source: str) -> list[str]:
    """What a person reads in a module."""
    read = [each for each in literals(ast.parse(source)) if " " in each.strip() and not NOT_PROSE.search(each)]
    return [comments_of(source), *read]


def of_tests(source: str) -> list[str]:
    """Docstrings, texts below a constant and comments; other strings of a test are its data."""
    bodies = [getattr(node, "body", None) for node in ast.walk(ast.parse(source))]
    texts = [part.value for body in bodies if isinstance(body, list) for part in body if isinstance(part, ast.Expr)]
    docstrings = [text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]
    return [comments_of(source), *docstrings]


def of_java(source: str) -> list[str]:
    return [re.sub(r"^\s*(//|/?\*+/?)", "", text, flags=re.MULTILINE) for text in JAVA_TEXT.findall(source)]


def faults_of(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Dialect words and long sentences."""
    kept = [CODE.sub("X", text) for text in texts]
    words = [word for text in kept for word in DIALECT.findall(" ".join(text.split()))]
    return words, [each for text in kept for each in too_long(text)]


def of_files(files: Iterable[Path], parse: Callable[[str], list[str]]) -> tuple[list[str], list[str]]:
    return faults_of(text for file in sorted(files) for text in parse(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", JUDGED, ids=lambda page: page.name)
def test_a_page_has_no_dialect_and_no_long_sentence(page: Path) -> None:
    text = CODE.sub("X", prose(page))
    assert (DIALECT.findall(text), too_long(text)) == ([], [])


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_package_has_no_dialect_and_no_long_sentence(package: str) -> None:
    words, long = of_files((ROOT / package).rglob("*.py"), of_python)
    assert words == []
    assert len(long) <= LEFT.get(package, 0), long


def test_the_java_has_no_dialect_and_no_long_sentence() -> None:
    words, long = of_files((ROOT / "streaming" / "companion" / "java").rglob("*.java"), of_java)
    assert words == []
    assert len(long) <= LEFT["java"], long


def test_configuration_manifests_and_templates_have_no_dialect() -> None:
    found = [file for place in SETTINGS for file in ([place] if place.is_file() else place.rglob("*"))]
    files = [file for file in found if file.is_file() and file.suffix != ".pyc"]
    texts = [file.read_text(encoding="utf-8") for file in (*files, *ROOT.glob("docker-compose*.yml"))]
    assert len(texts) > 50
    assert faults_of(texts)[0] == []


def test_docstrings_and_comments_of_tests_have_no_dialect() -> None:
    files = [file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    found = {file.name: of_files([file], of_tests)[0] for file in files}
    assert {name: words for name, words in found.items() if words} == {}


def test_names_of_tests_have_no_dialect() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    names = [name for file in files for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))]
    assert [name for name in names if DIALECT.search(name.replace("_", " "))] == []


def dialect_names(source: str) -> set[str]:
    """Identifiers of a module with a dialect word in them; an attribute counts where it is defined."""
    code = PYTHON_TEXT.sub('""', source)
    names = {name for name in NAMES.findall(code) if name not in STORED}
    return {name for name in names if any(WORD_OF_NAME.fullmatch(word) for word in words_of(name))}


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)]


def test_identifiers_have_no_dialect() -> None:
    files = [file for folder in (*CODE_FOLDERS, "tests") for file in (ROOT / folder).rglob("*.py")]
    found = {str(file.relative_to(ROOT)): dialect_names(file.read_text(encoding="utf-8")) for file in files}
    assert len(found) > 1_000
    assert {file: names for file, names in found.items() if names} == {}


def test_a_dialect_word_in_an_identifier_is_seen() -> None:
    source = (
        "asked_row = tasks = told_at\nclass StoryFailed: pass\ndef _tell_all(ask): file.tell()  # anew\nx = 'told'\n"
    )
    assert dialect_names(source) == {"asked_row", "StoryFailed", "_tell_all", "ask"}


def test_a_long_sentence_and_a_dialect_word_are_seen() -> None:
    assert too_long("word " * 31 + ".") != []
    assert too_long("word " * 20 + ". " + "Word " * 20) == []
    assert too_long("word " * 20 + "; " + "word " * 20) != []
    assert too_long("word " * 20 + ": " + "word " * 20) != []
    assert DIALECT.findall("The run goes on, and nobody tells.") == ["goes on", "nobody", "tells"]


def test_messages_docstrings_and_comments_of_a_module_are_seen() -> None:
    source = (
        'def f(x):\n    """It told."""\n    # goes\n    # on\n'
        '    return f"it {x} asked", "asked", "SELECT asked FROM x"\n'
    )
    assert sorted(faults_of(of_python(source))[0]) == ["asked", "goes on", "told"]
    assert faults_of(of_python('"""What is told; ``asked`` is a name."""\n'))[0] == ["told"]
    assert faults_of(of_python('"""' + "word " * 31 + '"""\n'))[1] != []


def test_docstrings_and_comments_of_a_test_are_seen_and_its_data_are_not() -> None:
    source = 'WORD = "asked"\n"""Somebody."""\ndef f():\n    """It goes on."""\n    return "told"  # in vain\n'
    assert sorted(faults_of(of_tests(source))[0]) == ["Somebody", "goes on", "in vain"]


def test_comments_and_messages_of_java_are_seen() -> None:
    source = '/** It\n * goes on. */\nclass asked {\n  String a = "nobody came"; // anew\n}\n'
    assert faults_of(of_java(source))[0] == ["goes on", "nobody", "anew"]


def test_the_pages_are_those_of_the_checkout() -> None:
    assert (ROOT / "README.md") in JUDGED
