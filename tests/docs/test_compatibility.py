"""The compatibility page matches the dispatch tables."""

from tests.docs.compatibility import PAGE, page
from tests.docs.settings import unused_patterns


def test_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.docs.compatibility"


def test_no_setting_is_said_to_be_without_effect_that_has_one() -> None:
    assert unused_patterns() == []
