"""The broker itself, for tools: its settings, its state, its counters, and cleaning on demand
(``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rmqproto.bodies.routes import KvTable
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.statistics import BrokerConfigAnswer, ViewStatsHeader
from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.admin.runtime_info import RuntimeInfo
from rmqserver.broker.parts import BrokerParts
from rmqserver.config.settings_requests import take_settings_untrusted
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

log = logging.getLogger(__name__)


class BrokerAdmin:
    """``on_settings`` is called with the keys whose value a request has changed."""

    def __init__(self, parts: BrokerParts, runtime: RuntimeInfo, on_settings: Callable[[set[str]], None]):
        self._config = parts.config
        self._topics = parts.topics
        self._store = parts.store
        self._stats = parts.stats
        self._reads = parts.reads
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
        if not request.body:
            return success(request)
        changed = take_settings_untrusted(self._config, request.body)
        if changed:
            log.info("event=settings-changed peer=%s keys=%s", connection.address, ",".join(sorted(changed)))
        self._on_settings(changed)
        return success(request)

    def get_config(self, request: Request[Any], connection: Connection) -> bytes:
        version = dumps(self._config.data_version).decode()
        return success(request, BrokerConfigAnswer(version=version), self._config.render().encode())

    # --- state and counters ------------------------------------------------------------------------------------------

    def runtime_info(self, request: Request[Any], connection: Connection) -> bytes | None:
        return self._reads.read(
            request, connection, self._runtime.table, lambda table: success(request, body=dumps(KvTable(table=table)))
        )

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
        """Deletes expired files now, at any hour."""
        self._store.clean_expired(force=True)
        return success(request)

    def clean_unused_topics(self, request: Request[Any], connection: Connection) -> bytes:
        """Deletes the queues of topics that are no longer in the table."""
        for topic in self._store.queues.names():
            is_known = self._topics.get(topic) is not None or self._topics.is_system(topic)
            if not is_known and not topic.startswith(LIGHT_QUEUE_PREFIX):
                self._store.delete_topic(topic)
        return success(request)
