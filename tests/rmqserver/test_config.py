from __future__ import annotations

import logging

import pytest

from rmqproto.errors import UsageError
from rmqserver.config import BrokerConfig, NamesrvConfig
from rmqserver.store.options import FlushMode, StoreOptions


def test_defaults_are_those_of_the_store() -> None:
    """The data file and ``StoreOptions`` state Apache's defaults twice; one must not drift."""
    assert BrokerConfig().store_options() == StoreOptions()


def test_every_attribute_has_a_key_that_apache_has() -> None:
    for config in (BrokerConfig(), NamesrvConfig()):
        listed = {line.partition("=")[0] for line in config.render().splitlines()}
        assert {field.metadata["key"] for field in config._fields.values()} <= listed


def test_a_broker_conf_is_read() -> None:
    config = BrokerConfig.from_properties(
        "# comment\nbrokerName = broker-b\nflushDiskType=SYNC_FLUSH\ndeleteWhen=04;16\n"
        "messageDelayLevel=1s 2s 1m\nnamesrvAddr=127.0.0.1:9876; 127.0.0.2:9876\nwriteBufferLowWaterMark=7\n"
    )
    assert config.broker_name == "broker-b"
    assert config.flush_mode is FlushMode.SYNC
    assert config.delete_hours == (4, 16)
    assert config.delay_levels_ms == (1000, 2000, 60_000)
    assert config.namesrv_addresses == ("127.0.0.1:9876", "127.0.0.2:9876")
    assert "brokerName=broker-b\n" in config.render()


def test_the_list_is_sorted_and_holds_what_we_do_not_act_on() -> None:
    lines = BrokerConfig().render().splitlines()
    assert lines == sorted(lines, key=lambda line: line.partition("=")[0])
    assert "sendThreadPoolQueueCapacity=10000" in lines


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flushDiskType", "SOMETIMES"),
        ("traceOn", "yes"),
        ("sendThreadPoolQueueCapacity", "many"),  # nothing here reads it, and it is wrong all the same
        ("maxMessageSize", "0"),
        ("messageDelayLevel", "soon"),
        ("deleteWhen", "25"),
        ("listenPort", "70000"),
        ("namesrvAddr", "localhost"),
        ("namesrvAddr", "a:1;b"),
        ("brokerPermission", "9"),
        ("brokerRole", "SLAVE"),
        ("storeType", "defaultRocksDB"),
        ("logicalDiskSpaceCleanForciblyThreshold", "half"),
    ],
)
def test_a_bad_value_at_start_is_an_error_that_names_it(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{key}={value}"):
        BrokerConfig.from_properties(f"{key}={value}\n")


def test_an_unknown_key_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        BrokerConfig.from_properties("noSuchKey=1\nsendThreadPoolQueueCapacity=5\ntraceOn=false\n")
    assert [record.getMessage() for record in caplog.records] == [
        "event=unknown-setting key=noSuchKey",
        "event=settings-without-effect keys=sendThreadPoolQueueCapacity",
    ]


def test_over_the_wire_what_does_not_parse_changes_nothing() -> None:
    """Apache answers 0 to ``flushDiskType=NO_SUCH`` and keeps the old value (spec 3.6, code 25)."""
    config = BrokerConfig()
    before = config.data_version.counter
    changed = config.update({"flushDiskType": "NO_SUCH", "maxMessageSize": "x", "noSuchKey": "1", "traceOn": "false"})
    assert changed == {"traceOn"}
    assert (config.flush_mode, config.max_message_size_bytes, config.trace_on) == (FlushMode.ASYNC, 4 << 20, False)
    assert config.data_version.counter == before + 1


def test_the_black_list_can_be_longer_but_not_shorter() -> None:
    config = BrokerConfig.from_properties("configBlackList=traceOn\n")
    assert [
        config.is_black_listed(key) for key in ("traceOn", "configBlackList", "brokerConfigPath", "rocketmqHome")
    ] == [True] * 4
    assert not config.is_black_listed("maxMessageSize")
    assert all(NamesrvConfig().is_black_listed(key) for key in ("configStorePath", "kvConfigPath", "rocketmqHome"))


def test_text_with_control_characters_is_no_value() -> None:
    """A region of a zero byte went into every message's properties, and every send was refused from then on."""
    config = BrokerConfig()
    assert config.update({"regionId": "a\0b", "brokerClusterName": "a\x01b"}) == set()
    with pytest.raises(UsageError, match="regionId"):
        config.load({"regionId": "\x02"})
