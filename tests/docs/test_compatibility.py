"""The pages of compatibility match the dispatch tables and the settings that the servers know."""

import re

from tests.docs.compatibility import DOCS, PAGE, acted_on_by_any, idle_keys, own_keys, page

SETTINGS = (DOCS / "compatibility-settings.md").read_text()


def after(head: str) -> set[str]:
    """The names in the paragraph below the text ``head``."""
    return set(re.findall(r"\w+", SETTINGS.partition(head)[2].lstrip().partition("\n\n")[0]))


def test_the_page_of_requests_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.docs.compatibility"


def test_the_settings_that_have_their_effect_are_named() -> None:
    assert after("have their effect:") == acted_on_by_any()


def test_the_settings_that_only_our_servers_have_are_named() -> None:
    assert after("`rmqadmin` always shows them:") == set(own_keys())


def test_each_setting_without_effect_is_named_once_with_its_reason() -> None:
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", SETTINGS, re.MULTILINE)
    which = [key for row in rows[1:] for key in row.split(", ")]
    assert sorted(which) == idle_keys()
