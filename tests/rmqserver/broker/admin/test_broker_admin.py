"""The broker itself and its slaves, for tools, as Apache's broker tells of them, and pages of tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.groups import CheckClientRequest, SubscriptionData
from rmqproto.bodies.popping import RequestMode
from rmqproto.bodies.routes import KvTable, TopicConfigs
from rmqproto.bodies.statistics import BrokerStatsData
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.sending import SendHeader
from rmqproto.headers.tables import ExportConfigHeader, TopicHeader
from rmqproto.java import java_properties
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.admin.runtime_info import bytes_text, runtime_text
from rmqserver.broker.admin.topics_and_groups import page
from rmqserver.config.broker_config import BrokerConfig
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import configure, configured, create_group, create_topic, ok, send
from tests.support.golden import Exchange, exchanges, said
from tests.support.servers import Server, until
from tests.support.wire import Wire

SET_FOR_THE_RECORDING = {
    "bitMapLengthConsumeQueueExt", "brokerFastFailureEnable", "compactionCqMappedFileSize",
    "compactionMappedFileSize", "deleteWhen", "diskMaxUsedSpaceRatio", "enableCompaction", "enableLmq",
    "enableMultiDispatch", "fileReservedTime", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue",
    "mappedFileSizeTimerLog", "mapperFileSizeBatchConsumeQueue", "maxHashSlotNum", "maxIndexNum", "maxMessageSize",
    "osPageCacheBusyTimeOutMills", "recallMessageEnable", "timerInterceptDelayLevel", "transactionCheckInterval",
    "transactionCheckMax", "useServerSideResetOffset",
}  # fmt: skip
OF_THE_MACHINE = re.compile(
    "bindAddress|brokerIP[12]|(ha)?[lL]istenPort|namesrvAddr|rocketmqHome|storePath.*|.*(ThreadPoolNums|Threads)"
)


def config(admin: Wire) -> dict[str, str]:
    return java_properties.parse_untrusted(ok(admin.ask(R.GET_BROKER_CONFIG)).body)


def runtime(admin: Wire) -> dict[str, str]:
    return loads_untrusted(ok(admin.ask(R.GET_BROKER_RUNTIME_INFO)).body, KvTable).table


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", exchanges(25), ids=lambda each: each.name)
def test_changing_settings_as_apache_does(admin: Wire, each: Exchange) -> None:
    before = config(admin)
    play(admin, each.name)
    assert config(admin) == before


@pytest.mark.parametrize("each", exchanges(26), ids=lambda each: each.name)
def test_settings_are_apaches_with_apaches_defaults(admin: Wire, each: Exchange) -> None:
    ours, theirs = said(admin.exchange(each.request)), said(each.answer)
    assert ours["ext"].keys() == theirs["ext"].keys()
    ours_pairs, their_pairs = (
        java_properties.parse_untrusted(ours["body"]),
        java_properties.parse_untrusted(theirs["body"]),
    )
    assert ours_pairs.keys() == their_pairs.keys()
    other = {
        key for key, value in ours_pairs.items() if value != their_pairs[key] and not OF_THE_MACHINE.fullmatch(key)
    }
    assert other <= SET_FOR_THE_RECORDING
    assert list(ours_pairs) == sorted(ours_pairs)


def test_a_change_counts_and_takes_effect_at_once(admin: Wire) -> None:
    create_topic(admin, "SmallTopic", 1)
    header = SendHeader(topic="SmallTopic", queue_id=0, born_timestamp=0)
    with configured(admin, maxMessageSize="1024"):
        refused = admin.ask(R.SEND_MESSAGE, header, bytes(1025))
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    ok(admin.ask(R.SEND_MESSAGE, header, bytes(1025)))


@pytest.mark.parametrize("shown", ["false", "true"])
def test_what_is_shown_is_what_counts(admin: Wire, shown: str) -> None:
    """They used to be shown as true while requests were refused as if they were false."""
    create_topic(admin, "TimedTopic", 1)
    with configured(admin, enablePropertyFilter=shown, timerWheelEnable=shown):
        pairs = config(admin)
        wanted = SubscriptionData(topic="T", sub_string="a > 5", expression_type="SQL92")
        body = dumps(CheckClientRequest(client_id="c", group="G", subscription_data=wanted))
        filtered = admin.ask(R.CHECK_CLIENT_CONFIG, body=body)
        header = SendHeader(topic="TimedTopic", queue_id=0, born_timestamp=0, properties="TIMER_DELAY_SEC\x0110\x02")
        timed = admin.ask(R.SEND_MESSAGE, header, b"m")
    assert (pairs["enablePropertyFilter"], pairs["timerWheelEnable"]) == (shown, shown)
    assert (filtered.code, timed.code) == ((0, 0) if shown == "true" else (1, 1))


def test_a_change_that_is_none_is_not_told_of(admin: Wire, golden_server: Server) -> None:
    """The log used to say ``event=settings-changed keys=``."""

    def told() -> int:
        return golden_server.log_file.read_text().count("event=settings-changed")

    before, same = told(), config(admin)["traceOn"]
    for wire_of_service, request in (
        (golden_server.broker_addr, R.UPDATE_BROKER_CONFIG),
        (golden_server.namesrv_addr, R.UPDATE_NAMESRV_CONFIG),
    ):
        with Wire(wire_of_service) as wire:
            for body in (b"", b"noSuchKey=1\n", f"traceOn={same}\nclusterTest=false\n".encode()):
                ok(wire.ask(request, body=body))
    assert told() == before
    configure(admin, traceOn="false")
    configure(admin, traceOn="true")
    assert told() == before + 2


def test_what_does_not_parse_changes_nothing_and_is_no_error(admin: Wire) -> None:
    before = config(admin)
    configure(admin, flushDiskType="NO_SUCH", flushIntervalCommitLog="x", noSuchKey="1")
    assert config(admin) == before


def test_what_cannot_be_worked_with_is_refused_in_words_and_changes_nothing(admin: Wire) -> None:
    before = config(admin)
    answer = admin.ask(R.UPDATE_BROKER_CONFIG, body=b"traceOn=false\nmaxMessageSize=-5\n")
    text = "maxMessageSize=-5: must be a whole number from 1024 to 2147483647"
    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, text)
    assert config(admin) == before


@pytest.mark.parametrize("key", ["brokerConfigPath", "rocketmqHome", "configBlackList"])
def test_one_black_listed_key_refuses_the_whole_request(admin: Wire, key: str) -> None:
    answer = admin.ask(R.UPDATE_BROKER_CONFIG, body=f"traceOn=false\n{key}=x\n".encode())
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    assert config(admin)["traceOn"] == "true"


def test_settings_that_are_no_text_are_refused(admin: Wire) -> None:
    assert admin.ask(R.UPDATE_BROKER_CONFIG, body=b"a=\xff\xfe").code == ResponseCode.SYSTEM_ERROR


def test_the_nameserver_hears_of_a_new_permission(admin: Wire, golden_server: Server) -> None:
    create_topic(admin, "Permitted", 1)
    with configured(admin, brokerPermission="4"), Wire(golden_server.namesrv_addr) as namesrv:

        def perm() -> int:
            route = namesrv.route("Permitted")
            return route.queue_datas[0].perm if route else 0

        until(lambda: perm() == 4)


def test_a_new_permission_is_one_change_of_the_topics(admin: Wire) -> None:
    """Nameservers accept only a newer table of topics, so its version must change with the setting. It used to step
    twice, and each step is sent to every nameserver."""

    def counter() -> int:
        topics = loads_untrusted(ok(admin.ask(R.GET_ALL_TOPIC_CONFIG)).body, TopicConfigs)
        return topics.data_version.counter

    before = counter()
    configure(admin, brokerPermission="2")
    configure(admin, brokerPermission="6")
    assert counter() == before + 2
    configure(admin, brokerPermission="6")
    assert counter() == before + 2, "nothing changed"


# --- its state -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", exchanges(28), ids=lambda each: each.name)
def test_runtime_has_apaches_keys_and_values_of_their_form(admin: Wire, each: Exchange) -> None:
    create_topic(admin, "CleanedTopic")
    send(admin, "CleanedTopic", 0)
    ours = said(admin.exchange(each.request))["body"]["table"]
    theirs = said(each.answer)["body"]["table"]

    def shared(table: dict[str, str]) -> dict[str, str]:
        is_own = re.compile("core$|scheduleMessageOffset_|commitLogDiskRatio_").match
        return {key: value for key, value in table.items() if not is_own(key)}

    assert shared(ours).keys() == shared(theirs).keys()
    for key, value in shared(ours).items():
        assert isinstance(value, str)
        if not key.endswith("Tps"):  # three numbers, some of which are still missing
            assert _form(value) == _form(theirs[key]), key


def _form(value: str) -> str:
    value = re.sub(r"-?\d+(\.\d+)?", "n", value)
    return re.sub(r"n ([KMGT]i)?B", "n B", value)


def test_a_level_of_which_no_message_was_due_yet_is_shown(admin: Wire) -> None:
    create_topic(admin, "DelayedTopic")
    send(admin, "DelayedTopic", 0, {"DELAY": "18"})
    waiting = runtime(admin)
    assert waiting["scheduleMessageOffset_18"] == "0,1"
    assert "scheduleMessageOffset_17" not in waiting


def test_tps_are_blank_until_there_are_samples(golden_server: Server, admin: Wire) -> None:
    """clusterList of mqadmin reads the first of three numbers, and needs all three."""
    table = runtime(admin)
    for key in ("putTps", "getFoundTps", "getMissTps", "getTransferredTps"):
        assert len(table[key].split(" ")) == 3
        assert table[key].endswith(" ")
    assert [float(number) for number in table["getTotalTps"].split(" ")][2] == 0.0


def test_runtime_counts_messages_and_bytes(admin: Wire) -> None:
    before = runtime(admin)
    create_topic(admin, "CountedTopic", 1)
    for _ in range(3):
        send(admin, "CountedTopic", 0)
    after = runtime(admin)
    assert int(after["putMessageTimesTotal"]) - int(before["putMessageTimesTotal"]) in (2, 3)  # 0 is shown as 1
    assert int(after["msgPutTotalTodayNow"]) - int(before["msgPutTotalTodayNow"]) == 3
    assert int(after["commitLogMaxOffset"]) > int(before["commitLogMaxOffset"])
    assert int(after["earliestMessageTimeStamp"]) > 0
    assert after["dispatchBehindBytes"].isdecimal()


def test_sizes_and_times_are_written_as_apache_does() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1024, 1331, 1 << 20, 270_582_939_648)] == [
        "0 B", "1023 B", "1.0 KiB", "1.3 KiB", "1.0 MiB", "252.0 GiB",
    ]  # fmt: skip
    assert runtime_text(153_900) == "[ 0 days, 0 hours, 2 minutes, 33 seconds ]"
    assert runtime_text(90_061_000) == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"


# --- what it counted -------------------------------------------------------------------------------------------------


def test_stats_as_apache_shows_them(admin: Wire) -> None:
    """All except 07, which comes from a broker that had transactions."""
    create_topic(admin, "PlainTopic")
    send(admin, "PlainTopic", 0)
    for number in ("01", "04"):
        play(admin, f"315-VIEW_BROKER_STATS_DATA/{number}", "sum", "tps", "avgpt")
    for number in ("02", "03", "05", "06", "08", "09", "10", "11", "12", "13", "14", "15", "16", "17"):
        play(admin, f"315-VIEW_BROKER_STATS_DATA/{number}")


def test_stats_of_a_topic_go_with_it(admin: Wire) -> None:
    create_topic(admin, "ShortLived", 1)
    send(admin, "ShortLived", 0)
    asked = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "ShortLived"}
    loads_untrusted(ok(admin.ask(R.VIEW_BROKER_STATS_DATA, asked)).body, BrokerStatsData)
    ok(admin.ask(R.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="ShortLived")))
    assert admin.ask(R.VIEW_BROKER_STATS_DATA, asked).code == ResponseCode.SYSTEM_ERROR


# --- cleaning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", exchanges(306) + exchanges(316) + exchanges(329), ids=lambda each: each.name)
def test_cleaning_as_apache_does(admin: Wire, each: Exchange) -> None:
    create_topic(admin, "CleanedTopic")
    send(admin, "CleanedTopic", 0)
    play(admin, each.name)
    assert ok(admin.ask(R.GET_MAX_OFFSET, {"topic": "CleanedTopic", "queueId": "0"})).ext["offset"] != "0"


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
