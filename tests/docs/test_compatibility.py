"""The compatibility page matches the dispatch tables."""

from tests.docs.compatibility import PAGE, WITHOUT_EFFECT, idle_keys, page, written


def test_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.docs.compatibility"


def test_each_setting_without_effect_stands_on_the_page_with_its_reason() -> None:
    which = [row.strip("| ").rpartition(" | ")[2] for row in written(WITHOUT_EFFECT)]
    assert sorted(key for keys in which for key in keys.split(", ")) == idle_keys(), f"write it into {PAGE}"
