"""The broker itself, for tools: its settings, its state, its counters, and cleaning on demand
(``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import KvTable
from rmqproto.bodies.statistics import BrokerStatsData
from rmqproto.codes import ResponseCode
from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqserver.broker.admin.runtime_info import RuntimeInfo
from rmqserver.broker.stats.stats import BrokerStats
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.settings_requests import take_settings_untrusted
from rmqserver.operation import Peer, Refused
from rmqserver.store.message_store import MessageStore

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
