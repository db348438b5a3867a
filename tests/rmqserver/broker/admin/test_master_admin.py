"""What is asked of a master, and long answers in pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.popping import RequestMode
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.tables import ExportConfigHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.admin.topics_and_groups import page
from rmqserver.config.broker_config import BrokerConfig
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import create_group, create_topic, ok
from tests.support.golden import exchanges
from tests.support.wire import Wire

CODES = (354, 355, 908, 2002, 2004)
WITHOUT_SLAVES = "907-GET_BROKER_HA_STATUS/03"
WITHOUT_CONTROLLER = [f"1007-GET_BROKER_EPOCH_CACHE/0{number}" for number in (1, 2, 3)]
NO_MODES = "402-GET_ALL_MESSAGE_REQUEST_MODE/03"


@pytest.mark.parametrize("name", [each.name for code in CODES for each in exchanges(code)])
def test_as_apache_says(admin: Wire, name: str) -> None:
    play(admin, name)


def test_a_master_without_slaves(admin: Wire) -> None:
    said = play(admin, WITHOUT_SLAVES, "masterCommitLogMaxOffset")
    create_topic(admin, "Grown", 1)
    assert said["body"]["masterCommitLogMaxOffset"] >= 0


@pytest.mark.parametrize("name", [each.name for each in exchanges(906)])
def test_a_master_says_where_it_is(admin: Wire, name: str) -> None:
    said = play(admin, name, "masterAddress", "masterHaAddress", "masterFlushOffset")
    assert said["ext"].keys() == {"masterAddress", "masterHaAddress", "masterFlushOffset"}
    assert int(said["ext"]["masterFlushOffset"]) >= 0


@pytest.mark.parametrize("name", WITHOUT_CONTROLLER)
def test_epochs_are_a_matter_of_controllers(admin: Wire, name: str) -> None:
    play(admin, name)


def test_limits_for_cold_data_are_kept_and_shown(admin: Wire) -> None:
    for each in exchanges(2003):
        play(admin, each.name)
    for each in exchanges(2001):
        play(admin, each.name)
    ok(admin.ask(R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body=b"Other=200\nNoNumber=x\n"))
    shown = ok(admin.ask(R.GET_COLD_DATA_FLOW_CTR_INFO)).body
    assert b'"configTable":{"NormalGroup":100,"Other":200}' in shown
    for group in (b"NormalGroup", b"Other", b"Nobody"):
        ok(admin.ask(R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, body=group))
    play(admin, "2003-GET_COLD_DATA_FLOW_CTR_INFO/01")


@pytest.mark.parametrize(
    ("mode", "code"),
    [("2", ResponseCode.INVALID_PARAMETER), ("x", ResponseCode.SYSTEM_ERROR), (None, ResponseCode.SYSTEM_ERROR)],
)
def test_modes_of_reading_that_there_are_not(admin: Wire, mode: str | None, code: ResponseCode) -> None:
    assert admin.ask(R.SET_COMMITLOG_READ_MODE, {} if mode is None else {"READ_AHEAD_MODE": mode}).code == code


def test_an_unknown_table_is_not_exported(admin: Wire) -> None:
    answer = admin.ask(R.EXPORT_ROCKSDB_CONFIG_TO_JSON, ExportConfigHeader(config_type="topics;users"))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "Unknown config type: users")


def test_all_request_modes(admin: Wire) -> None:
    play(admin, NO_MODES)
    create_topic(admin, "PopTopic")
    create_group(admin, "PopGroup")
    mode = RequestMode(consumer_group="PopGroup", mode="POP", pop_share_queue_num=0, topic="PopTopic")
    ok(admin.ask(R.SET_MESSAGE_REQUEST_MODE, body=dumps(mode)))
    for each in exchanges(402):
        if each.name != NO_MODES:
            play(admin, each.name)


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
