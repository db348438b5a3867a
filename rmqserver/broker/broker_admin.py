"""The broker itself, for tools: its settings, how it does, what it counted, and cleaning on demand
(``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rmqproto import java_properties
from rmqproto.bodies import KvTable
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.fastjson import dumps
from rmqproto.headers import BrokerConfigAnswer, ViewStatsHeader
from rmqserver.answer import Refused, Request, success
from rmqserver.broker.runtime_info import RuntimeInfo
from rmqserver.broker.stats import BrokerStats
from rmqserver.broker.topics import TopicTable
from rmqserver.config import BrokerConfig
from rmqserver.connection import Connection
from rmqserver.dispatch import Handler
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

LIGHT_QUEUE_PREFIX = "%LMQ%"
"""Queues of an Apache broker that belong to a topic of another name."""


class BrokerAdmin:
    """``on_settings`` is called with the keys whose value a request has changed."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        store: MessageStore,
        stats: BrokerStats,
        runtime: RuntimeInfo,
        on_settings: Callable[[set[str]], None],
    ):
        self._config = config
        self._topics = topics
        self._store = store
        self._stats = stats
        self._runtime = runtime
        self._on_settings = on_settings

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self.update_config,
            RequestCode.GET_BROKER_CONFIG: self.get_config,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.VIEW_BROKER_STATS_DATA: self.view_stats,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_expired_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_unused_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired_log,
        }

    # --- settings ----------------------------------------------------------------------------------------------------

    def update_config(self, request: Request[Any], connection: Connection) -> bytes:
        """Unknown keys and values that do not parse change nothing and are no error. Refused, with nothing changed,
        where a value cannot be worked with."""
        if not request.body:
            return success(request)
        pairs = java_properties.parse_untrusted(request.body)
        if any(self._config.is_black_listed(key) for key in pairs):
            raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        try:
            changed = self._config.update(pairs)
        except UsageError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        log.info("event=settings-changed peer=%s keys=%s", connection.peer, ",".join(sorted(changed)))
        self._on_settings(changed)
        if "brokerPermission" in pairs:
            self._topics.changed()
        return success(request)

    def get_config(self, request: Request[Any], connection: Connection) -> bytes:
        version = dumps(self._config.data_version).decode()
        return success(request, BrokerConfigAnswer(version=version), self._config.render().encode())

    # --- how it does -------------------------------------------------------------------------------------------------

    def runtime_info(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(KvTable(table=self._runtime.table())))

    def view_stats(self, request: Request[ViewStatsHeader], connection: Connection) -> bytes:
        name, key = request.header.stats_name, request.header.stats_key
        found = self._stats.view(name, key)
        if found is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return success(request, body=dumps(found))

    # --- cleaning ----------------------------------------------------------------------------------------------------

    def clean_expired_queues(self, request: Request[Any], connection: Connection) -> bytes:
        self._store.clean_expired()
        return success(request)

    def delete_expired_log(self, request: Request[Any], connection: Connection) -> bytes:
        """Expired files go now, whatever the hour."""
        self._store.clean_expired(force=True)
        return success(request)

    def clean_unused_topics(self, request: Request[Any], connection: Connection) -> bytes:
        """Queues of topics that are not in the table any more."""
        for topic in list(self._store.queues.topics):
            is_known = self._topics.get(topic) is not None or self._topics.is_system(topic)
            if not is_known and not topic.startswith(LIGHT_QUEUE_PREFIX):
                self._store.delete_topic(topic)
        return success(request)
