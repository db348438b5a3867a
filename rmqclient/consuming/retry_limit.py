"""How often a popped message is tried. Apache's brokers hand it out for ever, and leave it to their proxy to make a
dead letter of it: a consumer without a proxy has to know the group's limit itself."""

from __future__ import annotations

import logging

import trio

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto import fastjson
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.headers.tables import GroupHeader

log = logging.getLogger(__name__)

KNOWN_FOR_S = 30.0
"""How long the group's setting is trusted before it is asked for again."""

RETRY_MAX_TIMES = 16
"""A group's limit by default, and if a broker does not tell."""


class RetryLimit:
    """``times``: None for the group's own setting (``retryMaxTimes``), which each broker has for itself."""

    def __init__(self, client: ClientInstance, group: str, times: int | None):
        self._client = client
        self._group = group
        self._times = times
        self._known: dict[str, tuple[float, int]] = {}

    async def of(self, broker_name: str) -> int:
        """How often a message of the broker may come again before it is given up."""
        if self._times is not None:
            return self._times
        now_s = trio.current_time()
        known = self._known.get(broker_name)
        if known is None or now_s >= known[0]:
            known = self._known[broker_name] = now_s + KNOWN_FOR_S, await self._ask(broker_name)
        return known[1]

    async def _ask(self, broker_name: str) -> int:
        try:
            address = self._client.routes.master(broker_name)
            header = GroupHeader(group=self._group)
            answer = await self._client.channels.request(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            return fastjson.loads_untrusted(answer.body, SubscriptionGroupConfig).retry_max_times
        except RocketMQError as error:
            log.warning("retryMaxTimes not known group=%s broker=%s error=%s", self._group, broker_name, error)
            return RETRY_MAX_TIMES
