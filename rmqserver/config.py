"""The settings of the broker, the nameserver and the controller, under Apache's own keys.

``broker_keys.txt``, ``namesrv_keys.txt`` and ``controller_keys.txt`` hold every key of Apache RocketMQ 5.5.0 with type
and default: all are accepted, checked and listed. ``own_keys.txt`` and ``own_..._keys.txt`` hold the keys that only we
have. A setting with an effect here is an attribute of the classes below, and always has the key's value. A new one
takes one line. If Apache's key for a time names no unit, the attribute does.

Settings also come over the wire, from anyone who can reach the port. As with Apache's broker, a value that Java could
not parse changes nothing and is not an error. A value that would stop this server or cut off its clients is refused.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from rmqproto.bodies.base import DataVersion
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.java import java_properties
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX
from rmqserver import guards
from rmqserver.auth.auth_settings import ACL_1, AUTH_KEYS, AUTHENTICATION
from rmqserver.guards import VALUE_SHOWN_MAX
from rmqserver.limits.rates import NamedRates, parse_rates
from rmqserver.store.options import FlushMode, StoreOptions, bounded_disk_percent
from rmqserver.store.timers.timer_options import TimerOptions

log = logging.getLogger(__name__)

_BLACK_LIST_KEY = "configBlackList"
_MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIME_MAX_MS = 253_402_214_400_000
"""The last day of the year 9999. Later times cannot be written as a date."""

QUEUE_NUMS_MAX = 16_384
"""Queues of one topic on this broker. Every tool that shows a topic asks for every queue."""

TIMER_PRECISIONS_MS = (100, 200, 500, 1000)
DELAY_LEVELS_MAX = 256
"""Each level is a queue that is read ten times a second."""

DOES_NOT = "this server does not do that"


class BrokerRole(enum.Enum):
    """Whether a broker takes messages, and whether producers wait for slaves (``BrokerRole``, 5.5.0)."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class Unusable(ValueError):
    """A value that Apache's server would accept but ours cannot work with."""


def _setting(key: str, parse: Callable[[str], Any] | None = None) -> Any:
    """An attribute for ``key``. ``parse`` makes its value if the key's own type is not enough. It raises ValueError."""
    return dataclasses.field(init=False, metadata={"key": key, "parse": parse})


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false is needed")
    return text.lower() == "true"


def _parse_long(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]{1,19}", text) or not -LONG_MAX - 1 <= int(text) <= LONG_MAX:
        raise ValueError("a whole number is needed")
    return int(text)


def _parse_int(text: str) -> int:
    if not -INT_MAX - 1 <= _parse_long(text) <= INT_MAX:
        raise ValueError(f"a whole number up to {INT_MAX} is needed")
    return int(text)


def _between(low: int, high: int) -> Callable[[str], int]:
    """A parser of numbers in the range, for keys whose type was checked before."""

    def parse(text: str) -> int:
        if not low <= int(text) <= high:
            raise Unusable(f"a whole number from {low} to {high} is needed")
        return int(text)

    return parse


def _parse_received_max_bytes(text: str) -> int:
    """A limit that leaves room for one read."""
    return _between(1 << 20, INT_MAX)(text) if int(text) else 0


def _parse_rates(text: str) -> NamedRates:
    try:
        return parse_rates(text)
    except ValueError as error:
        raise Unusable(str(error)) from None


_parse_positive = _between(1, INT_MAX)
_parse_period_ms = _between(10, _MILLISECONDS["d"])
"""Limits of a task's sleep. A shorter sleep would take processor time from the clients. After a longer one, a corrected
setting would not take effect for hours."""


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is needed") from None


def _parse_flush_mode(text: str) -> FlushMode:
    if text not in {mode.value for mode in FlushMode}:
        raise ValueError("ASYNC_FLUSH or SYNC_FLUSH is needed")
    return FlushMode(text)


def _parse_role(text: str) -> BrokerRole:
    if text not in {role.value for role in BrokerRole}:
        raise ValueError("ASYNC_MASTER, SYNC_MASTER or SLAVE is needed")
    return BrokerRole(text)


def _parse_delay_levels_ms(text: str) -> tuple[int, ...]:
    levels = text.split()
    if not 0 < len(levels) <= DELAY_LEVELS_MAX or not all(re.fullmatch(r"[0-9]{1,9}[smhd]", one) for one in levels):
        raise Unusable(f"times such as 1s 5s 2m 1h are needed, {DELAY_LEVELS_MAX} at most")
    return tuple(int(level[:-1]) * _MILLISECONDS[level[-1]] for level in levels)


def _parse_timer_precision_ms(text: str) -> int:
    """The next of Apache's values below, or the smallest (``MessageStoreConfig.setTimerPrecisionMs``, 5.5.0)."""
    return max([known for known in TIMER_PRECISIONS_MS if known <= int(text)], default=TIMER_PRECISIONS_MS[0])


def _parse_hours(text: str) -> tuple[int, ...]:
    hours = text.split(";")
    if not all(re.fullmatch(r"[01]?[0-9]|2[0-3]", hour) for hour in hours):
        raise Unusable("hours such as 04 or 04;16 are needed")
    return tuple(map(int, hours))


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _parse_addresses(text: str) -> tuple[str, ...]:
    addresses = _parse_list(text)
    if not all(re.fullmatch(r"(\[.+\]|[^:]+):[0-9]{1,5}", address) for address in addresses):
        raise Unusable("HOST:PORT is needed, or several with ; between")
    return addresses


def _parse_permission(text: str) -> int:
    if int(text) not in (2, 4, 6):
        raise Unusable("2 (write), 4 (read) or 6 is needed")
    return int(text)


def _parse_request_mode(text: str) -> str:
    if text not in ("PULL", "POP"):
        raise ValueError("PULL or POP is needed")
    return text


def _parse_metrics_exporter(text: str) -> str:
    if text in ("OTLP_GRPC", "LOG"):
        raise Unusable("this server does not push metrics: DISABLE or PROM is needed")
    if text not in ("DISABLE", "PROM"):
        raise ValueError("DISABLE or PROM is needed")
    return text


def _parse_text(text: str) -> str:
    """Names go into the properties of every message (region, cluster), and the separators there are control
    characters."""
    if any(character < " " for character in text):
        raise Unusable("text without control characters is needed")
    return text


_PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": _parse_bool,
    "int": _parse_int,
    "long": _parse_long,
    "float": _parse_float,
    "text": _parse_text,
}


def _shown(text: str) -> str:
    """A value as an error shows it: short, and without characters that a terminal would interpret."""
    printable = "".join(one if one.isprintable() else "?" for one in text[:VALUE_SHOWN_MAX])
    return printable if len(text) <= VALUE_SHOWN_MAX else f"{printable}..."


def _read_keys(*file_names: str) -> tuple[dict[str, str], dict[str, str | None]]:
    """Types and defaults by key; None for a key without default. A line is ``type key=default``."""
    types, defaults = {}, {}
    for line in "".join(Path(__file__).with_name(file_name).read_text() for file_name in file_names).splitlines():
        if line and not line.startswith("#"):
            kind, _, rest = line.partition(" ")
            key, has_default, default = rest.partition("=")
            types[key] = kind
            defaults[key] = default if has_default else None
    return types, defaults


_OWN_LIMITS = _read_keys("own_keys.txt", "own_broker_keys.txt")[0].keys()


@dataclasses.dataclass(init=False, eq=False)
class Settings:
    """Values by key and, if they have an effect here, by attribute. ``data_version`` counts the updates over the
    wire."""

    keys_file: ClassVar[str]
    own_keys_files: ClassVar[tuple[str, ...]] = ("own_keys.txt",)
    refused: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Values, by key, that ask for something this server cannot do. They are an error: a broker that ignored them would
    mislead its owner."""
    instead: ClassVar[Mapping[str, str]] = {}
    """What to do instead of some of these."""

    bind_address: str = _setting("bindAddress")
    max_connections_per_address: int = _setting("maxConnectionsPerAddress", _between(0, INT_MAX))
    max_received_bytes_per_connection: int = _setting("maxReceivedBytesPerConnection", _parse_received_max_bytes)
    max_unread_bytes_per_connection: int = _setting("maxUnreadBytesPerConnection", _between(1 << 20, 256 << 20))
    server_channel_max_idle_time_s: int = _setting("serverChannelMaxIdleTimeSeconds", _between(0, INT_MAX))
    black_list: frozenset[str] = _setting(_BLACK_LIST_KEY, lambda text: frozenset(_parse_list(text)))

    def __init__(self) -> None:
        kinds, defaults = _read_keys(self.keys_file)
        own_kinds, own_defaults = _read_keys(*self.own_keys_files)
        self.kinds = kinds | own_kinds
        """int, long, float, bool or text, for every key of Apache's and ours."""
        self._own_defaults = {key: default or "" for key, default in own_defaults.items()}
        self._without_default = {key for key, default in defaults.items() if default is None}
        self._fields = {field.metadata["key"]: field for field in dataclasses.fields(self)}
        self._values: dict[str, str] = {}
        self.given: set[str] = set()
        """Keys that were set at the start, whatever the value."""
        self.data_version = DataVersion(timestamp=time.time_ns() // 1_000_000)
        for key, default in (defaults | own_defaults).items():
            if default is not None or key in self._fields:
                self._put(key, default or "")

    @classmethod
    def from_properties(cls, text: str) -> Self:
        """The defaults, changed by Java properties text. UsageError for a bad value, a warning for an unknown key."""
        config = cls()
        try:
            config.load(java_properties.parse_untrusted(text))
        except ProtocolError as error:
            raise UsageError(str(error)) from None
        return config

    def load(self, pairs: Mapping[str, str]) -> None:
        """Takes settings at start. UsageError, with key and value, for an impossible value. A warning for an unknown
        key, and for one that has no effect here."""
        guards.check(pairs)
        idle = []
        for key, text in pairs.items():
            if key not in self.kinds:
                if guards.is_guard(key):
                    continue  # a guard that is switched off
                self._check_unknown(key)
                log.warning("event=unknown-setting key=%s", key)
                continue
            if text.strip() in self.refused.get(key, ()):
                raise UsageError(f"{key}={_shown(text)}: {DOES_NOT}", hint=self.instead.get(key))
            if key not in self._fields and text.strip() != self._values.get(key):
                idle.append(key)
            try:
                self._put(key, text.strip())
            except ValueError as error:
                raise UsageError(f"{key}={_shown(text)}: {error}") from None
            self.given.add(key)
        self._check_together(self._values)
        self._warn_of_idle(idle)

    def _check_unknown(self, key: str) -> None:
        """UsageError for a limit that only the other server has: this server would run without it."""
        if key not in self.kinds and key in _OWN_LIMITS:
            raise UsageError(f"{key}: this server has no such limit", hint="set it for the broker")

    def _check_together(self, values: Mapping[str, str]) -> None:
        """UsageError if one of these values makes no sense with another."""

    def _warn_of_idle(self, keys: Iterable[str]) -> None:
        if names := ",".join(sorted(keys)):
            log.warning("event=settings-without-effect keys=%s", names)

    def record(self, pairs: Mapping[str, str]) -> None:
        """Takes values that the server itself determined (ports, paths), so that they are listed with the rest."""
        for key, text in pairs.items():
            self._put(key, text)

    def update(self, pairs: Mapping[str, str]) -> set[str]:
        """Takes settings while running (25, 318); returns the keys whose value changed.

        As with Apache, unknown keys and values that do not parse change nothing and are not errors. UsageError, with
        nothing changed, if the server cannot work with one of the values. The caller has already refused the keys of
        the black list.
        """
        guards.check(pairs)
        guards.check_running(pairs, self._values)
        changed = {}
        for key, text in pairs.items():
            if key not in self.kinds or key in AUTH_KEYS or self._values.get(key) == text:
                self._check_unknown(key)
                continue
            try:
                if text in self.refused.get(key, ()):
                    raise Unusable(DOES_NOT)
                self._parse(key, text)
            except Unusable as error:
                raise UsageError(f"{key}={_shown(text)}: {error}") from None
            except ValueError as error:
                if key in self._own_defaults:  # it is a limit: the owner must not believe that it is set
                    raise UsageError(f"{key}={_shown(text)}: {error}") from None
                log.warning("event=setting-ignored key=%s value=%r reason=%r", key, _shown(text), str(error))
            else:
                changed[key] = text
        self._check_together(self._values | changed)
        self.record(changed)
        self._warn_of_idle(key for key in changed if key not in self._fields)
        self.data_version.counter += 1
        self.data_version.timestamp = time.time_ns() // 1_000_000
        return set(changed)

    def knows(self, key: str) -> bool:
        return key in self.kinds

    def is_own(self, key: str) -> bool:
        """Whether it is one of our own keys."""
        return key in self._own_defaults

    def text(self, key: str) -> str:
        """The value of a key as it is listed. KeyError for an unknown key."""
        return self._values[key]

    def is_black_listed(self, key: str) -> bool:
        """Whether ``key`` must not be changed over the wire."""
        return key in self.black_list or key in (_BLACK_LIST_KEY, "rocketmqHome")

    def render(self) -> str:
        """``key=value`` lines in the order of their keys (26, 319, 1010): all of Apache's that have a value, and those
        of ours that differ from their defaults. The rest of ours follow as comments: Apache's tools then show what
        Apache's servers have, and ours show what can be set."""
        listed = {
            key: text
            for key, text in self._values.items()
            if self._own_defaults.get(key) != text and (text or key not in self._without_default)
        }
        at_defaults = {key: text for key, text in self._own_defaults.items() if self._values[key] == text}
        return java_properties.render(listed) + java_properties.render(at_defaults, before=java_properties.COMMENT)

    def _put(self, key: str, text: str) -> None:
        """Sets value and attribute. ValueError, with nothing changed, if ``text`` is not a value of this key."""
        value = self._parse(key, text)
        field = self._fields.get(key)
        if field is not None:
            setattr(self, field.name, value)
        self._values[key] = text

    def _parse(self, key: str, text: str) -> Any:
        """The value for the attribute, if the key has one."""
        value = _PARSERS[self.kinds[key]](text)
        field = self._fields.get(key)
        parse = field.metadata["parse"] if field is not None else None
        return parse(text) if parse else value


@dataclasses.dataclass(init=False, eq=False)
class BrokerConfig(Settings):
    """A broker's settings; ``store_options`` are those of its store."""

    keys_file = "broker_keys.txt"
    own_keys_files = ("own_keys.txt", "own_broker_keys.txt")
    refused = {
        "storeType": frozenset({"defaultRocksDB"}),
        "enableDLegerCommitLog": frozenset({"true"}),
        "enableRemoteEscape": frozenset({"true"}),
        "duplicationEnable": frozenset({"true"}),
        "enableConsumeQueueExt": frozenset({"true"}),
        "timerWheelSnapshotFlush": frozenset({"true"}),
    }
    instead = {
        "enableDLegerCommitLog": "a set of brokers under controllers fails over (enableControllerMode=true); "
        "docs/replication.md says how to get there",
        "enableRemoteEscape": "what is due waits for the master, which alone knows what it has delivered; a set under "
        "controllers (enableControllerMode=true) has a master that delivers it",
    }

    # Its names and addresses.
    broker_cluster_name: str = _setting("brokerClusterName")
    broker_name: str = _setting("brokerName")
    broker_id: int = _setting("brokerId", _between(0, LONG_MAX))
    broker_ip1: str = _setting("brokerIP1")
    broker_ip2: str = _setting("brokerIP2")
    listen_port: int = _setting("listenPort", _between(0, 65_535))
    namesrv_addresses: tuple[str, ...] = _setting("namesrvAddr", _parse_addresses)
    register_name_server_period_ms: int = _setting("registerNameServerPeriod")
    register_broker_timeout_ms: int = _setting("registerBrokerTimeoutMills", _between(100, 600_000))
    broker_permission: int = _setting("brokerPermission", _parse_permission)
    region_id: str = _setting("regionId")
    store_path_root_dir: str = _setting("storePathRootDir")
    rocketmq_home: str = _setting("rocketmqHome")
    """The directory with the files of ACL 1.0 (``auth_settings``)."""

    # Its slaves.
    broker_role: BrokerRole = _setting("brokerRole", _parse_role)  # noqa: RUF009 - a field all the same
    ha_listen_port: int = _setting("haListenPort", _between(0, 65_535))
    in_sync_replicas: int = _setting("inSyncReplicas", _between(-INT_MAX - 1, INT_MAX))
    slave_timeout_ms: int = _setting("slaveTimeout", _between(1, _MILLISECONDS["d"]))
    sync_broker_metadata_period_ms: int = _setting("syncBrokerMetadataPeriod", _parse_period_ms)
    slave_read_enable: bool = _setting("slaveReadEnable")
    offset_check_in_slave: bool = _setting("offsetCheckInSlave")
    sync_master_flush_offset_when_startup: bool = _setting("syncMasterFlushOffsetWhenStartup")
    sync_from_last_file: bool = _setting("syncFromLastFile")
    ha_send_heartbeat_interval_ms: int = _setting("haSendHeartbeatInterval", _parse_period_ms)
    ha_housekeeping_interval_ms: int = _setting("haHousekeepingInterval", _parse_period_ms)
    ha_transfer_batch_size_bytes: int = _setting("haTransferBatchSize", _between(1024, 4 << 20))
    ha_max_gap_not_in_sync_bytes: int = _setting("haMaxGapNotInSync", _between(0, INT_MAX))
    ha_flow_control_enable: bool = _setting("haFlowControlEnable")
    max_ha_transfer_byte_in_second: int = _setting("maxHaTransferByteInSecond", _between(1, LONG_MAX))

    # A slave that acts for its master.
    enable_slave_acting_master: bool = _setting("enableSlaveActingMaster")
    skip_pre_online: bool = _setting("skipPreOnline")
    broker_not_active_timeout_ms: int = _setting("brokerNotActiveTimeoutMillis", _between(100, LONG_MAX))
    sync_broker_member_group_period_ms: int = _setting("syncBrokerMemberGroupPeriod", _parse_period_ms)
    compatible_with_old_name_srv: bool = _setting("compatibleWithOldNameSrv")

    # Its set, whose master the controllers choose.
    enable_controller_mode: bool = _setting("enableControllerMode")
    controller_addresses: tuple[str, ...] = _setting("controllerAddr", _parse_addresses)
    store_path_broker_identity: str = _setting("storePathBrokerIdentity")
    store_path_epoch_file: str = _setting("storePathEpochFile")
    all_ack_in_sync_state_set: bool = _setting("allAckInSyncStateSet")
    min_in_sync_replicas: int = _setting("minInSyncReplicas", _between(1, INT_MAX))
    master_lease_enable: bool = _setting("masterLeaseEnable")
    forward_to_master_enable: bool = _setting("forwardToMasterEnable")
    async_learner: bool = _setting("asyncLearner")
    ha_max_time_slave_not_catchup_ms: int = _setting("haMaxTimeSlaveNotCatchup", _between(1, LONG_MAX))
    check_sync_state_set_period_ms: int = _setting("checkSyncStateSetPeriod", _parse_period_ms)
    sync_controller_metadata_period_ms: int = _setting("syncControllerMetadataPeriod", _parse_period_ms)
    broker_heartbeat_interval_ms: int = _setting("brokerHeartbeatInterval", _parse_period_ms)
    controller_heart_beat_timeout_ms: int = _setting("controllerHeartBeatTimeoutMills", _between(100, LONG_MAX))
    broker_election_priority: int = _setting("brokerElectionPriority", _between(-INT_MAX - 1, INT_MAX))

    # Metrics.
    metrics_exporter_type: str = _setting("metricsExporterType", _parse_metrics_exporter)
    metrics_host: str = _setting("metricsPromExporterHost")
    metrics_port: int = _setting("metricsPromExporterPort", _between(0, 65_535))

    # Topics and groups.
    auto_create_topic_enable: bool = _setting("autoCreateTopicEnable")
    auto_create_subscription_group: bool = _setting("autoCreateSubscriptionGroup")
    default_topic_queue_nums: int = _setting("defaultTopicQueueNums", _between(1, QUEUE_NUMS_MAX))
    cluster_topic_enable: bool = _setting("clusterTopicEnable")
    broker_topic_enable: bool = _setting("brokerTopicEnable")
    trace_topic_enable: bool = _setting("traceTopicEnable")
    msg_trace_topic_name: str = _setting("msgTraceTopicName")
    trace_on: bool = _setting("traceOn")
    validate_system_topic_when_update_topic: bool = _setting("validateSystemTopicWhenUpdateTopic")
    enable_mixed_message_type: bool = _setting("enableMixedMessageType")
    clear_retry_topic_when_delete_topic: bool = _setting("clearRetryTopicWhenDeleteTopic")
    enable_split_metadata: bool = _setting("enableSplitMetadata")
    split_metadata_size: int = _setting("splitMetadataSize", _parse_positive)
    store_reply_message_enable: bool = _setting("storeReplyMessageEnable")

    # Sending.
    max_message_size_bytes: int = _setting("maxMessageSize", _between(1024, INT_MAX))  # less would stop all sending
    start_accept_send_request_ms: int = _setting(
        "startAcceptSendRequestTimeStamp", _between(-LONG_MAX - 1, _TIME_MAX_MS)
    )
    delay_levels_ms: tuple[int, ...] = _setting("messageDelayLevel", _parse_delay_levels_ms)
    unique_key_check_ms: int = _setting("uniqueKeyCheckMillis", _between(0, LONG_MAX))  # 0: keys are not checked

    # Limits of one client (``rmqserver/limits/``).
    max_requests_in_flight_per_connection: int = _setting("maxRequestsInFlightPerConnection", _between(0, INT_MAX))
    max_send_rate_per_topic: NamedRates = _setting("maxSendRatePerTopic", _parse_rates)  # noqa: RUF009
    max_pull_rate_per_topic: NamedRates = _setting("maxPullRatePerTopic", _parse_rates)  # noqa: RUF009
    max_request_rate_per_user: NamedRates = _setting("maxRequestRatePerUser", _parse_rates)  # noqa: RUF009

    # Transactions.
    reject_transaction_message: bool = _setting("rejectTransactionMessage")
    transaction_timeout_ms: int = _setting("transactionTimeOut", _between(0, LONG_MAX))
    transaction_check_interval_ms: int = _setting("transactionCheckInterval", _parse_period_ms)
    transaction_check_max: int = _setting("transactionCheckMax")
    transaction_op_batch_interval_ms: int = _setting("transactionOpBatchInterval", _parse_period_ms)
    transaction_op_msg_max_size_bytes: int = _setting("transactionOpMsgMaxSize", _between(1, 1 << 20))
    transaction_metric_flush_interval_ms: int = _setting("transactionMetricFlushInterval", _parse_period_ms)

    # Timers.
    timer_wheel_enable: bool = _setting("timerWheelEnable")
    timer_precision_ms: int = _setting("timerPrecisionMs", _parse_timer_precision_ms)
    timer_roll_window_slot: int = _setting("timerRollWindowSlot")
    timer_log_file_size_bytes: int = _setting("mappedFileSizeTimerLog", _between(1024, INT_MAX))
    timer_flush_interval_ms: int = _setting("timerFlushIntervalMs", _parse_period_ms)
    timer_max_delay_s: int = _setting("timerMaxDelaySec", _between(0, INT_MAX))
    timer_congest_num_each_slot: int = _setting("timerCongestNumEachSlot", _between(1, INT_MAX))
    timer_stop_enqueue: bool = _setting("timerStopEnqueue")
    timer_stop_dequeue: bool = _setting("timerStopDequeue")
    recall_message_enable: bool = _setting("recallMessageEnable")
    allow_recall_when_broker_not_writeable: bool = _setting("allowRecallWhenBrokerNotWriteable")
    append_topic_for_timer_delete_key: bool = _setting("appendTopicForTimerDeleteKey")

    # Consuming.
    lite_pull_message_enable: bool = _setting("litePullMessageEnable")
    reject_pull_consumer_enable: bool = _setting("rejectPullConsumerEnable")
    long_polling_enable: bool = _setting("longPollingEnable")
    short_polling_time_ms: int = _setting("shortPollingTimeMills", _between(1, _MILLISECONDS["d"]))
    enable_property_filter: bool = _setting("enablePropertyFilter")
    filter_support_retry: bool = _setting("filterSupportRetry")
    filter_data_clean_time_span_ms: int = _setting("filterDataCleanTimeSpan", _between(0, LONG_MAX))
    expect_consumer_num_use_filter: int = _setting("expectConsumerNumUseFilter", _between(1, 100_000))
    max_error_rate_of_bloom_filter: int = _setting("maxErrorRateOfBloomFilter", _between(1, 99))
    server_load_balancer_enable: bool = _setting("serverLoadBalancerEnable")
    default_message_request_mode: str = _setting("defaultMessageRequestMode", _parse_request_mode)
    default_pop_share_queue_num: int = _setting("defaultPopShareQueueNum", _between(-1, INT_MAX))
    revive_queue_num: int = _setting("reviveQueueNum", _between(1, 1024))
    max_pop_polling_size: int = _setting("maxPopPollingSize", _between(0, LONG_MAX))
    pop_polling_map_size: int = _setting("popPollingMapSize", _between(0, INT_MAX))
    pop_polling_size: int = _setting("popPollingSize", _between(0, INT_MAX))
    use_message_filter_for_notification: bool = _setting("useMessageFilterForNotification")
    enable_pop_message_threshold: bool = _setting("enablePopMessageThreshold")
    pop_inflight_message_threshold: int = _setting("popInflightMessageThreshold", _between(0, LONG_MAX))
    pop_from_retry_probability: int = _setting("popFromRetryProbability", _between(0, 100))
    pop_from_retry_probability_for_priority: int = _setting("popFromRetryProbabilityForPriority", _between(0, 100))
    priority_order_asc: bool = _setting("priorityOrderAsc")
    pop_response_return_actual_retry_topic: bool = _setting("popResponseReturnActualRetryTopic")
    pop_revive_skip_if_group_absent: bool = _setting("popReviveSkipIfGroupAbsent")
    enable_retry_topic_v2: bool = _setting("enableRetryTopicV2")
    retrieve_message_from_pop_retry_topic_v1: bool = _setting("retrieveMessageFromPopRetryTopicV1")
    notify_consumer_ids_changed_enable: bool = _setting("notifyConsumerIdsChangedEnable")
    flush_consumer_offset_interval_ms: int = _setting("flushConsumerOffsetInterval", _parse_period_ms)
    use_server_side_reset_offset: bool = _setting("useServerSideResetOffset")
    channel_expired_timeout_ms: int = _setting("channelExpiredTimeout", _between(60_000, LONG_MAX))  # two heartbeats
    max_msgs_num_batch: int = _setting("maxMsgsNumBatch", _between(1, 1024))  # read at a time
    default_query_max_num: int = _setting("defaultQueryMaxNum", _parse_positive)

    # The store (``StoreOptions`` explains each).
    flush_mode: FlushMode = _setting("flushDiskType", _parse_flush_mode)  # noqa: RUF009 - a field all the same
    commit_log_file_size_bytes: int = _setting("mappedFileSizeCommitLog", _parse_positive)
    consume_queue_file_size_bytes: int = _setting("mappedFileSizeConsumeQueue", _parse_positive)
    index_enabled: bool = _setting("messageIndexEnable")
    index_slot_count: int = _setting("maxHashSlotNum", _parse_positive)
    index_unit_count: int = _setting("maxIndexNum", _parse_positive)
    max_lite_subscription_count: int = _setting("maxLiteSubscriptionCount", _between(0, INT_MAX))
    min_lite_ttl_ms: int = _setting("minLiteTTl", _between(0, LONG_MAX))
    lite_ttl_check_interval_ms: int = _setting("liteTtlCheckInterval", _parse_period_ms)
    enable_lmq: bool = _setting("enableLmq")
    enable_multi_dispatch: bool = _setting("enableMultiDispatch")
    enable_lmq_quota: bool = _setting("enableLmqQuota")
    max_lmq_consume_queue_num: int = _setting("maxLmqConsumeQueueNum", _between(0, INT_MAX))
    flush_interval_ms: int = _setting("flushIntervalCommitLog", _parse_positive)
    sync_flush_timeout_ms: int = _setting("syncFlushTimeout", _between(1, _MILLISECONDS["d"]))
    checkpoint_interval_ms: int = _setting("flushConsumeQueueThoroughInterval", _parse_positive)
    transfer_count_in_memory_max: int = _setting("maxTransferCountOnMessageInMemory", _parse_positive)
    transfer_bytes_in_memory_max: int = _setting("maxTransferBytesOnMessageInMemory", _parse_positive)
    transfer_count_on_disk_max: int = _setting("maxTransferCountOnMessageInDisk", _parse_positive)
    transfer_bytes_on_disk_max: int = _setting("maxTransferBytesOnMessageInDisk", _parse_positive)
    memory_percent_for_messages: int = _setting("accessMessageInMemoryMaxRatio", _between(0, 100))
    filter_scan_bytes_max: int = _setting("maxFilterMessageSize", _between(0, 1 << 18))  # filtered at a time
    check_crc_on_recover: bool = _setting("checkCRCOnRecover")
    delete_hours: tuple[int, ...] = _setting("deleteWhen", _parse_hours)
    file_reserved_hours: int = _setting("fileReservedTime", _between(0, INT_MAX))
    delete_file_batch_max: int = _setting("deleteFileBatchMax", _between(1, 100))  # up to 100 ms each
    clean_forcibly_enabled: bool = _setting("cleanFileForciblyEnable")
    clean_resource_interval_ms: int = _setting("cleanResourceInterval", _parse_period_ms)
    disk_used_percent_max: int = _setting("diskMaxUsedSpaceRatio")
    disk_used_percent_forcible: int = _setting("diskSpaceCleanForciblyRatio")
    disk_used_percent_full: int = _setting("diskSpaceWarningLevelRatio")

    def is_black_listed(self, key: str) -> bool:
        return super().is_black_listed(key) or key == "brokerConfigPath"

    def _check_together(self, values: Mapping[str, str]) -> None:
        """Apache's broker accepts a setting that promises copies, and does not keep it; ours refuses it."""
        if parse_rates(values["maxRequestRatePerUser"]).is_any and not any(
            values.get(key, "").lower() == "true" for key in (AUTHENTICATION, ACL_1)
        ):
            raise UsageError(
                f"maxRequestRatePerUser={_shown(values['maxRequestRatePerUser'])}: nobody is asked who he is",
                hint=f"set {AUTHENTICATION}=true as well, when the server starts",
            )
        is_slave = values["brokerRole"] == BrokerRole.SLAVE.value
        if is_slave is not (self.broker_role is BrokerRole.SLAVE):
            raise UsageError(
                f"brokerRole={values['brokerRole']}: a broker becomes a slave, or no longer is one, when it starts"
            )
        is_controlled = values["enableControllerMode"] == "true"
        if is_controlled is not self.enable_controller_mode:
            raise UsageError(
                f"enableControllerMode={values['enableControllerMode']}: a broker joins a set, or leaves it, when it "
                "starts"
            )
        may_act = values["enableSlaveActingMaster"].lower() == "true"
        if may_act is not self.enable_slave_acting_master:
            raise UsageError(
                f"enableSlaveActingMaster={values['enableSlaveActingMaster']}: it is decided when a broker starts"
            )
        if may_act and is_controlled:
            raise UsageError(
                "enableSlaveActingMaster=true: under controllers another broker is elected, and nobody acts for one",
                hint="leave it out, or enableControllerMode",
            )
        if is_slave and not is_controlled and values["brokerId"] == "0":
            raise UsageError("brokerRole=SLAVE: brokerId 0 is the master's", hint="set brokerId=1, or another above")
        if is_controlled:
            if not values["controllerAddr"]:
                raise UsageError("enableControllerMode=true: no controller is named", hint="set controllerAddr")
            return
        for key, idle in (("minInSyncReplicas", "1"), ("allAckInSyncStateSet", "false")):
            if values[key] != idle:
                raise UsageError(
                    f"{key}={_shown(values[key])}: without a controller nobody knows who is in sync",
                    hint="set enableControllerMode and controllerAddr; or brokerRole=SYNC_MASTER and inSyncReplicas=2, "
                    "and producers wait for a slave",
                )
        if values["brokerRole"] == BrokerRole.ASYNC_MASTER.value and int(values["inSyncReplicas"]) > 1:
            raise UsageError(
                f"inSyncReplicas={values['inSyncReplicas']}: with brokerRole=ASYNC_MASTER no producer waits for slaves",
                hint="set brokerRole=SYNC_MASTER as well",
            )

    def ha_addr(self, host: str) -> str:
        """Where slaves connect; ``host`` is our address, unless brokerIP2 names another."""
        return f"{self.broker_ip2 or host}:{self.ha_listen_port}"

    def timer_options(self) -> TimerOptions:
        """The options for opening the timer store."""
        return TimerOptions(
            precision_ms=self.timer_precision_ms,
            log_file_size_bytes=self.timer_log_file_size_bytes,
            roll_window_slots=self.timer_roll_window_slot,
        )

    @property
    def has_light_queues(self) -> bool:
        """Whether messages may name light queues. With only one of the two settings, Apache's broker does half of it,
        which is of no use."""
        return self.enable_lmq and self.enable_multi_dispatch

    def store_options(self) -> StoreOptions:
        """The options for opening the store; clamped as Apache clamps (5.5.0, ``MessageStoreConfig``)."""
        same = {field.name for field in dataclasses.fields(StoreOptions)} & {
            field.name for field in self._fields.values()
        }
        return dataclasses.replace(
            StoreOptions(**{name: getattr(self, name) for name in same}),
            message_size_max_bytes=self.max_message_size_bytes,
            waits_for_copies=self.enable_controller_mode,
            light_queues_enabled=self.has_light_queues,
            light_queue_count_max=self.max_lmq_consume_queue_num if self.enable_lmq_quota else None,
            disk_used_percent_max=bounded_disk_percent("disk_used_percent_max", self.disk_used_percent_max),
            disk_used_percent_forcible=bounded_disk_percent(
                "disk_used_percent_forcible", self.disk_used_percent_forcible
            ),
            disk_used_percent_full=bounded_disk_percent("disk_used_percent_full", self.disk_used_percent_full),
        )


@dataclasses.dataclass(init=False, eq=False)
class NamesrvConfig(Settings):
    """A nameserver's settings."""

    keys_file = "namesrv_keys.txt"
    own_keys_files = ("own_keys.txt", "own_namesrv_keys.txt")
    refused = {"enableControllerInNamesrv": frozenset({"true"})}
    max_requests_in_flight_per_connection: ClassVar[int] = 0
    """A nameserver answers every request at once."""

    auth_enabled: bool = _setting("namesrvAuthEnabled")
    """Whether requests must be signed. For a nameserver without a broker, ``authenticationEnabled`` decides."""
    listen_port: int = _setting("listenPort", _between(0, 65_535))
    kv_config_path: str = _setting("kvConfigPath")
    scan_not_active_broker_interval_ms: int = _setting("scanNotActiveBrokerInterval", _parse_period_ms)
    order_message_enable: bool = _setting("orderMessageEnable")
    return_order_topic_config_to_broker: bool = _setting("returnOrderTopicConfigToBroker")
    enable_topic_list: bool = _setting("enableTopicList")
    enable_all_topic_list: bool = _setting("enableAllTopicList")
    delete_topic_with_broker_registration: bool = _setting("deleteTopicWithBrokerRegistration")
    support_acting_master: bool = _setting("supportActingMaster")
    notify_min_broker_id_changed: bool = _setting("notifyMinBrokerIdChanged")
    need_wait_for_service: bool = _setting("needWaitForService")
    wait_seconds_for_service: int = _setting("waitSecondsForService", _between(0, 86_400))

    def is_black_listed(self, key: str) -> bool:
        return super().is_black_listed(key) or key in ("configStorePath", "kvConfigPath")


def _parse_urls(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_peers(text: str) -> tuple[str, ...]:
    peers = _parse_list(text)
    if not all(re.fullmatch(r"[^-;:]+-(\[.+\]|[^:]+):[0-9]{1,5}", peer) for peer in peers):
        raise Unusable("ID-HOST:PORT is needed, or several with ; between")
    return peers


@dataclasses.dataclass(init=False, eq=False)
class ControllerConfig(Settings):
    """A controller's settings."""

    keys_file = "controller_keys.txt"
    own_keys_files = ("own_keys.txt", "own_controller_keys.txt")
    max_requests_in_flight_per_connection: ClassVar[int] = 0
    """A controller answers every request at once."""
    refused = {"controllerType": frozenset({"jRaft"})}

    listen_port: int = _setting("listenPort", _between(0, 65_535))
    controller_store_path: str = _setting("controllerStorePath")
    controller_dleger_group: str = _setting("controllerDLegerGroup")
    controller_dleger_self_id: str = _setting("controllerDLegerSelfId")
    controller_dleger_peers: tuple[str, ...] = _setting("controllerDLegerPeers", _parse_peers)
    etcd_endpoints: tuple[str, ...] = _setting("etcdEndpoints", _parse_urls)
    """Where several controllers keep their state. Empty: this is the only controller, with its state in
    controllerStorePath."""
    etcd_lease_ttl_s: int = _setting("etcdLeaseTtlSeconds", _between(2, 600))
    etcd_user_name: str = _setting("etcdUserName")
    etcd_password_path: str = _setting("etcdPasswordPath")
    etcd_ca_path: str = _setting("etcdCaPath")
    etcd_cert_path: str = _setting("etcdCertPath")
    etcd_key_path: str = _setting("etcdKeyPath")
    enable_elect_unclean_master: bool = _setting("enableElectUncleanMaster")
    notify_broker_role_changed: bool = _setting("notifyBrokerRoleChanged")
    scan_not_active_broker_interval_ms: int = _setting("scanNotActiveBrokerInterval", _parse_period_ms)
    scan_inactive_master_interval_ms: int = _setting("scanInactiveMasterInterval", _parse_period_ms)

    def is_black_listed(self, key: str) -> bool:
        """Also its addresses and identity, which brokers know, and the place of its state, which is in use."""
        return (
            super().is_black_listed(key)
            or key in ("configStorePath", "controllerStorePath", "controllerType", "listenPort", "bindAddress")
            or key.startswith(("controllerDLeger", "etcd"))
        )

    def _check_together(self, values: Mapping[str, str]) -> None:
        if len(_parse_list(values["controllerDLegerPeers"])) > 1 and not values["etcdEndpoints"]:
            raise UsageError(
                f"controllerDLegerPeers={_shown(values['controllerDLegerPeers'])}: several controllers keep their "
                "state in etcd",
                hint="give --etcd URL[,URL...]; or, to a controller that is alone, its own entry or none",
            )
