"""The broker itself, for tools: its settings, its state, its counters, its slaves, its timers, and cleaning on
demand (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.replication import ColdDataFlow, HaStatus
from rmqproto.bodies.routes import KvTable
from rmqproto.bodies.statistics import BrokerStatsData
from rmqproto.codes import ResponseCode
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.java import java_properties
from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqserver.broker.admin.runtime_info import RuntimeInfo
from rmqserver.broker.errors import TableFull
from rmqserver.broker.stats import BrokerStats
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.keyed_settings import take_settings_untrusted
from rmqserver.operation import Refused
from rmqserver.store.message_store import MessageStore

if TYPE_CHECKING:
    from rmqproto.bodies.statistics import TimerMetrics
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.relays.timer_metrics import TimingCounts
    from rmqserver.broker.replicas.ha_master import HaMaster
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer
    from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)


class BrokerAdmin:
    """``on_settings`` is called with the keys whose value a request has changed."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, store: MessageStore, stats: BrokerStats, runtime: RuntimeInfo,
        on_settings: Callable[[set[str]], None],
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._store = store
        self._stats = stats
        self._runtime = runtime
        self._on_settings = on_settings

    # --- settings ----------------------------------------------------------------------------------------------------

    def update_config(self, text: bytes, peer: Peer) -> None:
        """Takes lines of ``key=value``."""
        changed = take_settings_untrusted(self._config, text)
        if changed:
            log.info("event=settings-changed peer=%s keys=%s", peer.address, ",".join(sorted(changed)))
        self._on_settings(changed)

    def config_text(self) -> str:
        return self._config.render()

    @property
    def data_version(self) -> DataVersion:
        return self._config.data_version

    # --- state and counters ------------------------------------------------------------------------------------------

    def state(self) -> KvTable:
        """Reads the store: a door calls it by ``Reads.read``."""
        return KvTable(table=self._runtime.table())

    def stats(self, name: str, key: str) -> BrokerStatsData:
        found = self._stats.view(name, key)
        if found is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return found

    # --- cleaning ----------------------------------------------------------------------------------------------------

    def clean_expired(self, *, at_any_hour: bool) -> None:
        self._store.clean_expired(force=at_any_hour)

    def clean_unused_topics(self) -> None:
        """Deletes the queues of topics that are no longer in the table."""
        for topic in self._store.queues.names():
            is_known = self._topics.get(topic) is not None or self._topics.is_system(topic)
            if not is_known and not topic.startswith(LIGHT_QUEUE_PREFIX):
                self._store.delete_topic(topic)


LIMITS_MAX = 10_000
_INT64_MAX = (1 << 63) - 1
_CONFIG_TYPES = frozenset({"topics", "subscriptiongroups", "consumeroffsets"})
"""``ExportRocksDBConfigToJsonRequestHeader.ConfigType``, in lower case."""

_MADV_NORMAL, _MADV_RANDOM = 0, 1


class MasterAdmin:
    """What tools ask of a master: its slaves; read limits for cold data, which are kept and shown but hold nothing
    back; and RocksDB, which this broker does not have."""

    def __init__(self, config: BrokerConfig, replicas: HaMaster, address: OwnAddress):
        self._config = config
        self._replicas = replicas
        self._address = address
        self._cold_limits_bytes: dict[str, int] = {}
        """By group. As in Apache's broker, they last as long as the process."""

    def status(self) -> HaStatus:
        return self._replicas.status()

    def ha_info(self, header: HaInfoHeader, peer: Peer) -> HaInfoHeader:
        """This master's addresses, as the peer reaches it. A request that names another master changes nothing."""
        if header.master_ha_address is not None:
            return HaInfoHeader()
        addr = self._address.address(peer)
        ha_addr = self._config.ha_addr(addr.rpartition(":")[0])
        return HaInfoHeader(master_address=addr, master_flush_offset=0, master_ha_address=ha_addr)

    # --- cold data ---------------------------------------------------------------------------------------------------

    def set_cold_limits(self, text: bytes) -> None:
        """Takes lines of ``group=bytes``. As in Apache's broker, values that are not numbers are skipped."""
        for group, limit in java_properties.parse_untrusted(text).items():
            if not re.fullmatch(r"[-+]?[0-9]{1,19}", limit) or abs(int(limit)) > _INT64_MAX:
                continue
            if len(self._cold_limits_bytes) >= LIMITS_MAX and group not in self._cold_limits_bytes:
                raise TableFull(f"limits of {LIMITS_MAX} groups are kept, and no more are taken")
            self._cold_limits_bytes[group] = int(limit)

    def remove_cold_limit(self, group: str) -> None:
        self._cold_limits_bytes.pop(group, None)

    def cold_limits(self) -> ColdDataFlow:
        return ColdDataFlow(
            config_table=self._cold_limits_bytes,
            cg_cold_read_threshold=int(self._config.text("cgColdReadThreshold")),
            global_cold_read_threshold=int(self._config.text("globalColdReadThreshold")),
        )

    def read_mode(self, mode: str | None) -> int:
        """The mode that is asked for. Nothing changes: it is ``madvise`` for a mapped log; ours is read by ``pread``,
        and the kernel adapts."""
        if mode is None or not re.fullmatch(r"[-+]?[0-9]{1,10}", mode):
            raise Refused(ResponseCode.SYSTEM_ERROR, "set commitlog readahead mode failed")
        if int(mode) not in (_MADV_NORMAL, _MADV_RANDOM):
            raise Refused(ResponseCode.INVALID_PARAMETER, "set commitlog readahead mode param value error")
        return int(mode)

    @staticmethod
    def check_export(config_type: str) -> None:
        """Raises Refused for an unknown kind of table. Nothing is exported, since the tables are JSON already; Apache's
        broker then also answers that it is done."""
        for kind in config_type.split(";"):
            if kind and kind.strip().lower() not in _CONFIG_TYPES:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"Unknown config type: {kind.strip()}")


_FILE_ENGINE, _ROCKSDB_ENGINE = "F", "R"


class TimerAdmin:
    def __init__(
        self, config: BrokerConfig, timer_store: TimerStore, clock_ms: Callable[[], int], counts: TimingCounts
    ):
        self._config = config
        self._timers = timer_store
        self._clock_ms = clock_ms
        self._counts = counts

    def check_point(self) -> bytes:
        """As it is in its file."""
        self._check_enabled("The checkpoint is null")
        self._timers.due(self._clock_ms())
        return self._timers.checkpoint().packed()

    def metrics(self) -> TimerMetrics:
        self._check_enabled("The timer message store is null")
        return self._counts.content

    def _check_enabled(self, remark: str) -> None:
        if not self._config.timer_wheel_enable:
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def check_engine(self, engine: str | None) -> None:
        """There is only one engine, that of files: Refused for any other."""
        if engine not in (_FILE_ENGINE, _ROCKSDB_ENGINE):
            raise Refused(ResponseCode.INVALID_PARAMETER, "param error")
        if not self._config.timer_wheel_enable:
            raise Refused(ResponseCode.INVALID_PARAMETER, "broker timerWheelEnable is false")
        if engine == _ROCKSDB_ENGINE:
            text = "timerRocksDBEnable must be configured true when broker start"
            raise Refused(ResponseCode.INVALID_PARAMETER, text)
