import dataclasses
import logging

import pytest

from rmqproto.errors import UsageError
from rmqproto.java import java_properties
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.keyed_settings import Settings
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.store.options import FlushMode, StoreOptions
from tests.support.quick import in_one_test

INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1


def keys_of(config: Settings) -> set[str]:
    """The keys that the server acts on: those that have an attribute."""
    return {field.metadata["key"] for field in dataclasses.fields(config)}


def test_defaults_are_those_of_the_store() -> None:
    """The data file and ``StoreOptions`` both state Apache's defaults. They must not drift apart."""
    assert BrokerConfig().store_options() == StoreOptions()


def test_every_attribute_has_a_key_that_apache_has() -> None:
    for config in (BrokerConfig(), NamesrvConfig()):
        assert set(keys_of(config)) <= config.kinds.keys()


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
    lines = [line for line in BrokerConfig().render().splitlines() if not line.startswith("#")]
    assert lines == sorted(lines, key=lambda line: line.partition("=")[0])
    assert "sendThreadPoolQueueCapacity=10000" in lines


def test_what_only_we_have_is_a_comment_until_it_says_something_else() -> None:
    """Apache's tools must see exactly the settings that Apache's broker lists."""
    config = BrokerConfig()
    assert "#maxSendRatePerTopic=0\n" in config.render()
    assert not any(map(config.is_own, java_properties.parse_untrusted(config.render())))
    config.update({"maxSendRatePerTopic": "10"})
    assert "\nmaxSendRatePerTopic=10\n" in config.render()
    assert "#maxSendRatePerTopic" not in config.render()


@in_one_test(
    ("flushDiskType", "SOMETIMES"),
    ("traceOn", "yes"),
    ("sendThreadPoolQueueCapacity", "many"),  # nothing here reads it, but it is wrong
    ("maxMessageSize", "0"),
    ("messageDelayLevel", "soon"),
    ("deleteWhen", "25"),
    ("listenPort", "70000"),
    ("namesrvAddr", "local host"),
    ("namesrvAddr", "a:1;b:x"),
    ("brokerPermission", "9"),
    ("brokerRole", "SLAVE"),
    ("storeType", "defaultRocksDB"),
    ("logicalDiskSpaceCleanForciblyThreshold", "half"),
)
def test_a_bad_value_at_start_is_an_error_that_names_it(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{key}={value}"):
        BrokerConfig.from_properties(f"{key}={value}\n")


@pytest.mark.parametrize("key", ["enableDLegerCommitLog", "enableRemoteEscape", "enableSlaveActingMaster"])
def test_what_is_not_served_is_refused_with_what_to_do_instead(key: str) -> None:
    BrokerConfig.from_properties(f"{key}=false\n")
    with pytest.raises(UsageError, match=f"{key}=TRUE: this server does not do that"):
        BrokerConfig().load({key: "TRUE"})  # as Java reads it
    with pytest.raises(UsageError, match=f"{key}=true: this server does not do that") as refused:
        BrokerConfig.from_properties(f"{key}=true\n")
    assert "enableControllerMode=true" in (refused.value.hint or "")
    config = BrokerConfig()
    with pytest.raises(UsageError, match=f"{key}=true"):
        config.update({key: "true"})
    assert config.text(key) == "false"


def test_an_unknown_key_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        BrokerConfig.from_properties("noSuchKey=1\nsendThreadPoolQueueCapacity=5\ntraceOn=false\n")
    assert [record.getMessage() for record in caplog.records] == [
        "event=unknown-setting key=noSuchKey",
        "event=settings-without-effect keys=sendThreadPoolQueueCapacity",
    ]


def test_over_the_wire_too_the_log_names_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig()
    with caplog.at_level("WARNING"):
        assert config.update({"sendThreadPoolQueueCapacity": "5", "traceOn": "false"}) == {
            "sendThreadPoolQueueCapacity", "traceOn"
        }  # fmt: skip
        config.update({"sendThreadPoolQueueCapacity": "5"})
    assert caplog.messages == ["event=settings-without-effect keys=sendThreadPoolQueueCapacity"]


def test_over_the_wire_what_does_not_parse_changes_nothing() -> None:
    """Apache answers 0 to ``flushDiskType=NO_SUCH`` and keeps the old value (spec 3.6, code 25)."""
    config = BrokerConfig()
    before = config.data_version.counter
    changed = config.update({"flushDiskType": "NO_SUCH", "maxMessageSize": "x", "noSuchKey": "1", "traceOn": "false"})
    assert changed == {"traceOn"}
    assert (config.flush_mode, config.max_message_size_bytes, config.trace_on) == (FlushMode.ASYNC, 4 << 20, False)
    assert config.data_version.counter == before + 1


@pytest.mark.parametrize("text", ["no", "off", "0", "yes", ""])
def test_over_the_wire_whatever_is_not_true_turns_a_switch_off(text: str) -> None:
    """It used to change nothing, and 25 was answered with 0: whoever turned automatic topics off with ``no`` still had
    them. Apache's broker reads and lists false."""
    config = BrokerConfig()
    assert config.update({"autoCreateTopicEnable": text}) == {"autoCreateTopicEnable"}
    assert config.auto_create_topic_enable is False
    assert config.text("autoCreateTopicEnable") == "false"


def test_the_black_list_can_be_longer_but_not_shorter() -> None:
    config = BrokerConfig.from_properties("configBlackList=traceOn\n")
    assert [
        config.is_black_listed(key) for key in ("traceOn", "configBlackList", "brokerConfigPath", "rocketmqHome")
    ] == [True] * 4
    assert not config.is_black_listed("maxMessageSize")
    assert all(NamesrvConfig().is_black_listed(key) for key in ("configStorePath", "kvConfigPath", "rocketmqHome"))


def test_text_with_control_characters_is_no_value() -> None:
    """A zero byte in the region used to get into every message's properties, and every send was refused from then
    on."""
    config = BrokerConfig()
    with pytest.raises(UsageError, match=r"regionId=a\?b: must be text without control characters"):
        config.update({"traceOn": "false", "regionId": "a\0b"})
    assert config.trace_on, "nothing is changed then"
    with pytest.raises(UsageError, match="regionId"):
        config.load({"regionId": "\x02"})


LIMITS = {
    "maxConnectionsPerAddress": (0, INT_MAX),
    "maxReceivedBytesPerConnection": (1 << 20, INT_MAX),
    "maxUnreadBytesPerConnection": (1 << 20, 256 << 20),
}
"""Bounds of the limits of both servers. A limit of 0 received bytes would mean none, so it is out of bounds."""

BOUNDS = {
    "brokerId": (0, LONG_MAX),
    "listenPort": (0, 65_535),
    "haListenPort": (0, 65_535),
    "slaveTimeout": (1, 86_400_000),
    "syncBrokerMetadataPeriod": (10, 86_400_000),
    "haMaxTimeSlaveNotCatchup": (1, LONG_MAX),
    "checkSyncStateSetPeriod": (10, 86_400_000),
    "syncControllerMetadataPeriod": (10, 86_400_000),
    "brokerHeartbeatInterval": (10, 86_400_000),
    "controllerHeartBeatTimeoutMills": (100, LONG_MAX),
    "brokerElectionPriority": (-INT_MAX - 1, INT_MAX),
    "haSendHeartbeatInterval": (10, 86_400_000),
    "haHousekeepingInterval": (10, 86_400_000),
    "haTransferBatchSize": (1024, 4 << 20),
    "haMaxGapNotInSync": (0, INT_MAX),
    "maxHaTransferByteInSecond": (1, LONG_MAX),
    "metricsPromExporterPort": (0, 65_535),
    "registerBrokerTimeoutMills": (100, 600_000),
    "defaultTopicQueueNums": (1, 16_384),
    "splitMetadataSize": (1, INT_MAX),
    "maxMessageSize": (1024, INT_MAX),
    "startAcceptSendRequestTimeStamp": (-LONG_MAX - 1, 253_402_214_400_000),
    "shortPollingTimeMills": (1, 86_400_000),
    "defaultPopShareQueueNum": (-1, INT_MAX),
    "reviveQueueNum": (1, 1024),
    "popInflightMessageThreshold": (0, LONG_MAX),
    "maxPopPollingSize": (0, LONG_MAX),
    "popPollingMapSize": (0, INT_MAX),
    "popPollingSize": (0, INT_MAX),
    "popFromRetryProbability": (0, 100),
    "popFromRetryProbabilityForPriority": (0, 100),
    "flushConsumerOffsetInterval": (10, 86_400_000),
    "channelExpiredTimeout": (60_000, LONG_MAX),
    "maxMsgsNumBatch": (1, 1024),
    "grpcServerPort": (0, 65_535),
    "defaultQueryMaxNum": (1, INT_MAX),
    "mappedFileSizeCommitLog": (1, INT_MAX),
    "mappedFileSizeConsumeQueue": (1, INT_MAX),
    "maxHashSlotNum": (1, INT_MAX),
    "maxIndexNum": (1, INT_MAX),
    "flushIntervalCommitLog": (1, INT_MAX),
    "syncFlushTimeout": (1, 86_400_000),
    "serverChannelMaxIdleTimeSeconds": (0, INT_MAX),
    "flushConsumeQueueThoroughInterval": (1, INT_MAX),
    "maxTransferCountOnMessageInMemory": (1, INT_MAX),
    "maxTransferBytesOnMessageInMemory": (1, INT_MAX),
    "maxTransferCountOnMessageInDisk": (1, INT_MAX),
    "maxTransferBytesOnMessageInDisk": (1, INT_MAX),
    "accessMessageInMemoryMaxRatio": (0, 100),
    "maxFilterMessageSize": (0, 1 << 18),
    "fileReservedTime": (0, INT_MAX),
    "deleteFileBatchMax": (1, 100),
    "cleanResourceInterval": (10, 86_400_000),
    "maxLmqConsumeQueueNum": (0, INT_MAX),
    "maxLiteSubscriptionCount": (0, INT_MAX),
    "minLiteTTl": (0, LONG_MAX),
    "liteTtlCheckInterval": (10, 86_400_000),
    "mappedFileSizeTimerLog": (1024, INT_MAX),
    "timerFlushIntervalMs": (10, 86_400_000),
    "timerMaxDelaySec": (0, INT_MAX),
    "timerCongestNumEachSlot": (1, INT_MAX),
    "transactionTimeOut": (0, LONG_MAX),
    "transactionCheckInterval": (10, 86_400_000),
    "transactionCheckMax": (-INT_MAX - 1, INT_MAX),
    "transactionOpBatchInterval": (10, 86_400_000),
    "transactionOpMsgMaxSize": (1, 1 << 20),
    "transactionMetricFlushInterval": (10, 86_400_000),
    "maxRequestsInFlightPerConnection": (0, INT_MAX),
    "uniqueKeyCheckMillis": (0, LONG_MAX),
    **LIMITS,
}
"""The bounds of every number that the broker acts on."""

CLAMPED = {
    "registerNameServerPeriod", "diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio",
    "timerPrecisionMs", "timerRollWindowSlot",
}  # fmt: skip
"""Numbers that take any value, as in Apache's broker."""

NAMESRV_BOUNDS = {
    "listenPort": (0, 65_535),
    "scanNotActiveBrokerInterval": (10, 86_400_000),
    "waitSecondsForService": (0, 86_400),
    "serverChannelMaxIdleTimeSeconds": (0, INT_MAX),
    **LIMITS,
}


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_every_number_that_is_acted_on_has_bounds(kind: type[Settings]) -> None:
    """No setting may stop the server for others, whoever sends it: a period of 0 would be a busy loop, one of 300
    million years a task that never wakes up, and a message size of 0 would end all sends."""
    config = kind()
    bounds = BOUNDS if kind is BrokerConfig else NAMESRV_BOUNDS
    numbers = {key for key in keys_of(config) if config.kinds[key] in ("int", "long", "float")}
    others = {"brokerPermission", "inSyncReplicas", "minInSyncReplicas"}  # one of three; tied to other settings
    assert numbers - others - (CLAMPED if kind is BrokerConfig else set()) == bounds.keys()
    for key, (low, high) in bounds.items():
        limit = LONG_MAX if config.kinds[key] == "long" else INT_MAX
        for value in (low, high):
            config.update({key: str(value)})
            assert config.text(key) == str(value)
        for value in {low - 1, high + 1, -limit - 1, limit} - {low, high}:
            if -limit - 1 <= value <= limit and not low <= value <= high:
                with pytest.raises(UsageError, match=f"^{key}={value}: must be a whole number from {low} to {high}"):
                    config.update({key: str(value)})


@pytest.mark.parametrize("value", ["-2147483648", "-5", "0", "2147483647"])
def test_what_apache_clamps_is_taken_and_clamped(value: str) -> None:
    config = BrokerConfig()
    assert config.update(dict.fromkeys(CLAMPED, value)) == CLAMPED
    options = config.store_options()
    found = options.disk_used_percent_max, options.disk_used_percent_forcible, options.disk_used_percent_full
    assert found == ((95, 85, 90) if value == "2147483647" else (10, 30, 35))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("maxMessageSize", "2147483648"), ("maxMessageSize", "1e6"), ("channelExpiredTimeout", "9223372036854775808"),
        ("sendThreadPoolQueueCapacity", "2147483648"), ("maxMessageSize", "1" + "0" * 30),
    ],
)  # fmt: skip
def test_what_java_cannot_parse_changes_nothing_and_is_no_error(key: str, value: str) -> None:
    assert BrokerConfig().update({key: value}) == set()


@in_one_test(
    ("brokerPermission", "7"), ("messageDelayLevel", "soon"), ("messageDelayLevel", "1s " * 257),
    ("deleteWhen", "24"), ("deleteWhen", "-1"), ("namesrvAddr", "localhost:x"), ("brokerRole", "SLAVE"),
    ("storeType", "defaultRocksDB"),
)  # fmt: skip
def test_over_the_wire_what_cannot_be_worked_with_is_refused(key: str, value: str) -> None:
    config = BrokerConfig()
    before, version = config.render(), config.data_version.counter
    with pytest.raises(UsageError, match=f"^{key}="):
        config.update({"traceOn": "false", key: value})
    assert (config.render(), config.data_version.counter) == (before, version)


def test_a_name_server_without_a_port_has_the_usual_one() -> None:
    config = BrokerConfig()
    config.update({"namesrvAddr": "localhost;10.0.0.1:1;fe80::1;[::1]"})
    assert config.namesrv_addresses == ("localhost:9876", "10.0.0.1:1", "[fe80::1]:9876", "[::1]:9876")
