"""The page of compatibility says what the dispatch tables do."""

from tests.docs.compatibility import PAGE, page


def test_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.docs.compatibility"
