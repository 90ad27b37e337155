"""The page of all messages is what the source of the product says."""

from tests.messages_page import PAGE, messages_of, page

SOURCE = '''
"""A docstring that no reader of a message sees."""
WORDS = "two words"
def refuse(name: str) -> None:
    """A docstring."""
    click.option("--x", help="an option has its own page")
    raise UsageError(f"there is no query {name}: {name.strip() + name.strip() + name.strip() + name}",
                     hint="tideover list " "shows the names")
    connection.execute("SELECT one FROM two WHERE three")
'''


def test_the_page_of_messages_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/messages.md is old: run make docs"


def test_only_texts_for_readers_are_messages() -> None:
    assert messages_of(SOURCE) == ["there is no query {name}: {...}", "tideover list shows the names"]
