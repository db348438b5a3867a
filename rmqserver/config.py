"""What the broker and the nameserver can be told, under Apache's own keys.

``broker_keys.txt`` and ``namesrv_keys.txt`` hold every key of Apache RocketMQ 5.5.0 with type and default: all are
accepted, checked and listed. What we act on is an attribute of the classes here, always in step with its key; adding
one is adding a line. Wherever a time has no unit in Apache's key, the attribute says it.

Settings come over the wire, too, from whoever can reach the port. A value that Java could not parse changes nothing and
is no error, as with Apache's broker. One that would stop this server, or take it away from its clients, is refused.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from rmqproto import java_properties
from rmqproto.bodies import DataVersion
from rmqproto.errors import ProtocolError, UsageError
from rmqserver.store.options import FlushMode, StoreOptions

log = logging.getLogger(__name__)

_BLACK_LIST_KEY = "configBlackList"
_MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_TIME_MAX_MS = 253_402_214_400_000
"""The last day of the year 9999: later times cannot be written as a date."""

QUEUE_NUMS_MAX = 16_384
"""Queues of one topic on this broker. Every tool that looks at a topic asks for every queue."""

DELAY_LEVELS_MAX = 256
"""Each is a queue that is looked at ten times a second."""

DOES_NOT = "this server does not do that"
VALUE_SHOWN_MAX = 100
"""Characters of a value in a refusal."""


class Unusable(ValueError):
    """A value that Apache's server would take, and that ours cannot work with."""


def _setting(key: str, parse: Callable[[str], Any] | None = None) -> Any:
    """An attribute for ``key``. ``parse`` makes its value, if the key's own type does not; ValueError if it cannot."""
    return dataclasses.field(init=False, metadata={"key": key, "parse": parse})


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false is needed")
    return text.lower() == "true"


def _parse_long(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]{1,19}", text) or not -_LONG_MAX - 1 <= int(text) <= _LONG_MAX:
        raise ValueError("a whole number is needed")
    return int(text)


def _parse_int(text: str) -> int:
    if not -_INT_MAX - 1 <= _parse_long(text) <= _INT_MAX:
        raise ValueError(f"a whole number up to {_INT_MAX} is needed")
    return int(text)


def _between(low: int, high: int) -> Callable[[str], int]:
    """For numbers that their type has parsed before."""

    def parse(text: str) -> int:
        if not low <= int(text) <= high:
            raise Unusable(f"a whole number from {low} to {high} is needed")
        return int(text)

    return parse


_parse_positive = _between(1, _INT_MAX)
_parse_period_ms = _between(10, _MILLISECONDS["d"])
"""How long a task sleeps: with less it would take the processor from the clients, and with more it would not notice for
ages that the setting was taken back."""


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is needed") from None


def _parse_flush_mode(text: str) -> FlushMode:
    if text not in {mode.value for mode in FlushMode}:
        raise ValueError("ASYNC_FLUSH or SYNC_FLUSH is needed")
    return FlushMode(text)


def _parse_delay_levels_ms(text: str) -> tuple[int, ...]:
    levels = text.split()
    if not 0 < len(levels) <= DELAY_LEVELS_MAX or not all(re.fullmatch(r"[0-9]{1,9}[smhd]", one) for one in levels):
        raise Unusable(f"times such as 1s 5s 2m 1h are needed, {DELAY_LEVELS_MAX} at most")
    return tuple(int(level[:-1]) * _MILLISECONDS[level[-1]] for level in levels)


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


def _parse_text(text: str) -> str:
    """Names go into the properties of every message (region, cluster), whose separators are control characters."""
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
    """A value in a message: short, and nothing in it that a terminal would act on."""
    printable = "".join(one if one.isprintable() else "?" for one in text[:VALUE_SHOWN_MAX])
    return printable if len(text) <= VALUE_SHOWN_MAX else f"{printable}..."


def _read_keys(file_name: str) -> tuple[dict[str, str], dict[str, str | None]]:
    """Types and defaults by key; None for a key that has no default. A line is ``type key=default``."""
    types, defaults = {}, {}
    for line in Path(__file__).with_name(file_name).read_text().splitlines():
        if line and not line.startswith("#"):
            kind, _, rest = line.partition(" ")
            key, has_default, default = rest.partition("=")
            types[key] = kind
            defaults[key] = default if has_default else None
    return types, defaults


@dataclasses.dataclass(init=False, eq=False)
class Settings:
    """Values by key and, for what we act on, by attribute. ``data_version`` counts the updates over the wire."""

    keys_file: ClassVar[str]
    refused: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Values that ask for what this server does not do, by key: an error is kinder than a broker that does not."""

    bind_address: str = _setting("bindAddress")
    black_list: frozenset[str] = _setting(_BLACK_LIST_KEY, lambda text: frozenset(_parse_list(text)))

    def __init__(self) -> None:
        self._types, defaults = _read_keys(self.keys_file)
        self._fields = {field.metadata["key"]: field for field in dataclasses.fields(self)}
        self._values: dict[str, str] = {}
        self.data_version = DataVersion(timestamp=time.time_ns() // 1_000_000)
        for key, default in defaults.items():
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
        """Takes settings at start. UsageError that names key and value where a value cannot be; an unknown key, and
        one that changes nothing here, is a warning."""
        idle = []
        for key, text in pairs.items():
            if key not in self._types:
                log.warning("event=unknown-setting key=%s", key)
                continue
            if text.strip() in self.refused.get(key, ()):
                raise UsageError(f"{key}={_shown(text)}: {DOES_NOT}")
            if key not in self._fields and text.strip() != self._values.get(key):
                idle.append(key)
            try:
                self._put(key, text.strip())
            except ValueError as error:
                raise UsageError(f"{key}={_shown(text)}: {error}") from None
        if idle:
            log.warning("event=settings-without-effect keys=%s", ",".join(sorted(idle)))

    def record(self, pairs: Mapping[str, str]) -> None:
        """Takes what the server itself found out - ports, paths - to be listed with the rest."""
        for key, text in pairs.items():
            self._put(key, text)

    def update(self, pairs: Mapping[str, str]) -> set[str]:
        """Takes settings while running (25, 318); returns the keys whose value changed.

        As Apache does it, unknown keys and values that do not parse change nothing and are no error. UsageError, with
        nothing changed, where one of the values cannot be worked with. The caller has refused keys of the black list
        before.
        """
        changed = {}
        for key, text in pairs.items():
            if key not in self._types or self._values.get(key) == text:
                continue
            try:
                if text in self.refused.get(key, ()):
                    raise Unusable(DOES_NOT)
                self._parse(key, text)
            except Unusable as error:
                raise UsageError(f"{key}={_shown(text)}: {error}") from None
            except ValueError as error:
                log.warning("event=setting-ignored key=%s value=%r reason=%r", key, _shown(text), str(error))
            else:
                changed[key] = text
        self.record(changed)
        self.data_version.counter += 1
        self.data_version.timestamp = time.time_ns() // 1_000_000
        return set(changed)

    def knows(self, key: str) -> bool:
        return key in self._types

    def text(self, key: str) -> str:
        """The value of any of Apache's keys, as it is listed; KeyError for another key."""
        return self._values[key]

    def is_black_listed(self, key: str) -> bool:
        """Whether ``key`` must not be changed over the wire."""
        return key in self.black_list or key in (_BLACK_LIST_KEY, "rocketmqHome")

    def render(self) -> str:
        """``key=value`` lines in the order of their keys (26, 319)."""
        return java_properties.render(self._values)

    def _put(self, key: str, text: str) -> None:
        """Sets value and attribute. ValueError where ``text`` is none for this key; nothing is changed then."""
        value = self._parse(key, text)
        field = self._fields.get(key)
        if field is not None:
            setattr(self, field.name, value)
        self._values[key] = text

    def _parse(self, key: str, text: str) -> Any:
        """The value for the attribute, if the key has one."""
        value = _PARSERS[self._types[key]](text)
        field = self._fields.get(key)
        parse = field.metadata["parse"] if field is not None else None
        return parse(text) if parse else value


@dataclasses.dataclass(init=False, eq=False)
class BrokerConfig(Settings):
    """A broker's settings; with ``store_options`` for the store under it."""

    keys_file = "broker_keys.txt"
    refused = {
        "brokerRole": frozenset({"SLAVE"}),
        "storeType": frozenset({"defaultRocksDB"}),
        "enableDLegerCommitLog": frozenset({"true"}),
        "enableControllerMode": frozenset({"true"}),
        "duplicationEnable": frozenset({"true"}),
    }

    # Who and where it is.
    broker_cluster_name: str = _setting("brokerClusterName")
    broker_name: str = _setting("brokerName")
    broker_id: int = _setting("brokerId", _between(0, _LONG_MAX))
    broker_ip1: str = _setting("brokerIP1")
    listen_port: int = _setting("listenPort", _between(0, 65_535))
    namesrv_addresses: tuple[str, ...] = _setting("namesrvAddr", _parse_addresses)
    register_name_server_period_ms: int = _setting("registerNameServerPeriod")
    register_broker_timeout_ms: int = _setting("registerBrokerTimeoutMills", _between(100, 600_000))
    broker_permission: int = _setting("brokerPermission", _parse_permission)
    region_id: str = _setting("regionId")
    store_path_root_dir: str = _setting("storePathRootDir")

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
    timer_wheel_enable: bool = _setting("timerWheelEnable")

    # Sending.
    max_message_size_bytes: int = _setting("maxMessageSize", _between(1024, _INT_MAX))  # or nobody could send
    start_accept_send_request_ms: int = _setting(
        "startAcceptSendRequestTimeStamp", _between(-_LONG_MAX - 1, _TIME_MAX_MS)
    )
    delay_levels_ms: tuple[int, ...] = _setting("messageDelayLevel", _parse_delay_levels_ms)

    # Consuming.
    lite_pull_message_enable: bool = _setting("litePullMessageEnable")
    long_polling_enable: bool = _setting("longPollingEnable")
    short_polling_time_ms: int = _setting("shortPollingTimeMills", _between(1, _MILLISECONDS["d"]))
    enable_property_filter: bool = _setting("enablePropertyFilter")
    notify_consumer_ids_changed_enable: bool = _setting("notifyConsumerIdsChangedEnable")
    flush_consumer_offset_interval_ms: int = _setting("flushConsumerOffsetInterval", _parse_period_ms)
    use_server_side_reset_offset: bool = _setting("useServerSideResetOffset")
    channel_expired_timeout_ms: int = _setting("channelExpiredTimeout", _between(60_000, _LONG_MAX))  # two heartbeats
    max_msgs_num_batch: int = _setting("maxMsgsNumBatch", _between(1, 1024))  # read at one go
    default_query_max_num: int = _setting("defaultQueryMaxNum", _parse_positive)

    # The store (``StoreOptions`` says what each means).
    flush_mode: FlushMode = _setting("flushDiskType", _parse_flush_mode)  # noqa: RUF009 - a field all the same
    commit_log_file_size_bytes: int = _setting("mappedFileSizeCommitLog", _parse_positive)
    consume_queue_file_size_bytes: int = _setting("mappedFileSizeConsumeQueue", _parse_positive)
    index_enabled: bool = _setting("messageIndexEnable")
    index_slot_count: int = _setting("maxHashSlotNum", _parse_positive)
    index_unit_count: int = _setting("maxIndexNum", _parse_positive)
    flush_interval_ms: int = _setting("flushIntervalCommitLog", _parse_positive)
    checkpoint_interval_ms: int = _setting("flushConsumeQueueThoroughInterval", _parse_positive)
    transfer_count_in_memory_max: int = _setting("maxTransferCountOnMessageInMemory", _parse_positive)
    transfer_bytes_in_memory_max: int = _setting("maxTransferBytesOnMessageInMemory", _parse_positive)
    transfer_count_on_disk_max: int = _setting("maxTransferCountOnMessageInDisk", _parse_positive)
    transfer_bytes_on_disk_max: int = _setting("maxTransferBytesOnMessageInDisk", _parse_positive)
    memory_percent_for_messages: int = _setting("accessMessageInMemoryMaxRatio", _between(0, 100))
    filter_scan_bytes_max: int = _setting("maxFilterMessageSize", _between(0, 1 << 18))  # looked at in one go
    check_crc_on_recover: bool = _setting("checkCRCOnRecover")
    delete_hours: tuple[int, ...] = _setting("deleteWhen", _parse_hours)
    file_reserved_hours: int = _setting("fileReservedTime", _between(0, _INT_MAX))
    delete_file_batch_max: int = _setting("deleteFileBatchMax", _between(1, 100))  # 100 ms each, if it comes to it
    clean_forcibly_enabled: bool = _setting("cleanFileForciblyEnable")
    clean_resource_interval_ms: int = _setting("cleanResourceInterval", _parse_period_ms)
    disk_used_percent_max: int = _setting("diskMaxUsedSpaceRatio")
    disk_used_percent_forcible: int = _setting("diskSpaceCleanForciblyRatio")
    disk_used_percent_full: int = _setting("diskSpaceWarningLevelRatio")

    def is_black_listed(self, key: str) -> bool:
        return super().is_black_listed(key) or key == "brokerConfigPath"

    def store_options(self) -> StoreOptions:
        """What the store is opened with; clamped as Apache clamps (5.5.0, ``MessageStoreConfig``)."""
        same = {field.name for field in dataclasses.fields(StoreOptions)} & {
            field.name for field in self._fields.values()
        }
        return dataclasses.replace(
            StoreOptions(**{name: getattr(self, name) for name in same}),
            message_size_max_bytes=self.max_message_size_bytes,
            disk_used_percent_max=min(max(self.disk_used_percent_max, 10), 95),
            disk_used_percent_forcible=min(max(self.disk_used_percent_forcible, 30), 85),
            disk_used_percent_full=min(max(self.disk_used_percent_full, 35), 90),
        )


@dataclasses.dataclass(init=False, eq=False)
class NamesrvConfig(Settings):
    """A nameserver's settings."""

    keys_file = "namesrv_keys.txt"
    refused = {"enableControllerInNamesrv": frozenset({"true"})}

    listen_port: int = _setting("listenPort", _between(0, 65_535))
    kv_config_path: str = _setting("kvConfigPath")
    scan_not_active_broker_interval_ms: int = _setting("scanNotActiveBrokerInterval", _parse_period_ms)
    order_message_enable: bool = _setting("orderMessageEnable")
    return_order_topic_config_to_broker: bool = _setting("returnOrderTopicConfigToBroker")
    enable_topic_list: bool = _setting("enableTopicList")
    enable_all_topic_list: bool = _setting("enableAllTopicList")
    delete_topic_with_broker_registration: bool = _setting("deleteTopicWithBrokerRegistration")
    support_acting_master: bool = _setting("supportActingMaster")
    need_wait_for_service: bool = _setting("needWaitForService")
    wait_seconds_for_service: int = _setting("waitSecondsForService", _between(0, 86_400))

    def is_black_listed(self, key: str) -> bool:
        return super().is_black_listed(key) or key in ("configStorePath", "kvConfigPath")
