"""Pages of tables, as replicas and tools read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import DataVersion
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.admin.paging import page
from rmqserver.config.broker_config import BrokerConfig

ENTRIES = {name: name.lower() for name in "CABED"}
VERSION = DataVersion(counter=3, timestamp=7)
CONFIG = BrokerConfig()
NOW = dumps(VERSION).decode()
OLD = dumps(DataVersion(counter=2, timestamp=6)).decode()


def pages(first: int | None, version: str | None, count: int | None, config: BrokerConfig = CONFIG) -> str:
    return "".join(page(ENTRIES, VERSION, config, first, version, count))


def test_a_reader_that_names_nothing_gets_everything_in_its_order() -> None:
    assert pages(None, None, None) == "CABED"


def test_pages_are_in_the_order_of_names() -> None:
    assert pages(0, "", 2) == "AB"
    assert pages(2, NOW, 2) == "CD"
    assert pages(4, NOW, 2) == "E"
    assert pages(5, NOW, 2) == ""


def test_a_changed_table_is_read_from_its_start_again() -> None:
    """The reader sees the new version and starts over; a page from the middle would leave a gap."""
    for version in (OLD, "", None, "{no json"):
        assert pages(2, version, 2) == "AB"


def test_the_first_page_needs_no_version() -> None:
    assert pages(0, OLD, 2) == "AB"


def test_a_page_is_never_longer_than_the_setting() -> None:
    config = BrokerConfig.from_properties("splitMetadataSize=3")
    assert pages(0, None, 100, config) == "ABC"
    assert pages(0, None, None, config) == "ABC"


def test_paging_can_be_switched_off() -> None:
    config = BrokerConfig.from_properties("enableSplitMetadata=false")
    assert pages(2, NOW, 1, config) == "CABED"


@given(st.integers(-10, 10), st.integers(-10, 10))
def test_odd_numbers_do_no_harm(first: int, count: int) -> None:
    assert set(pages(first, NOW, count)) <= set(ENTRIES)
