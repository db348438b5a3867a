"""The limit for redeliveries of a popped message. Apache's brokers deliver it for ever, and leave it to their proxy to
make it a dead letter. A consumer without a proxy has to know the group's limit itself."""

from __future__ import annotations

import logging

import trio

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.headers.tables import GroupHeader
from rmqproto.wire import fastjson

log = logging.getLogger(__name__)

KNOWN_FOR_S = 30.0
"""How long the group's setting is used before it is asked for again."""

RETRY_MAX_TIMES = 16
"""A group's default limit, which is used until a broker has told its own."""


class RetryLimit:
    """``times`` None stands for the group's own setting (``retryMaxTimes``), which each broker has for itself."""

    def __init__(self, client: ClientInstance, group: str, times: int | None):
        self._client = client
        self._group = group
        self._times = times
        self._known: dict[str, tuple[float, int]] = {}

    async def of(self, broker_name: str) -> int:
        """How often a message of the broker may be redelivered before it is given up."""
        if self._times is not None:
            return self._times
        now_s = trio.current_time()
        until_s, times = self._known.get(broker_name, (now_s, RETRY_MAX_TIMES))
        if now_s >= until_s and (told := await self._ask(broker_name)) is not None:
            times = told
            self._known[broker_name] = now_s + KNOWN_FOR_S, times
        return times

    async def _ask(self, broker_name: str) -> int | None:
        """The group's setting at the broker; None if it does not tell."""
        try:
            address = self._client.routes.master(broker_name)
            header = GroupHeader(group=self._group)
            answer = await self._client.channels.request(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            return fastjson.loads_untrusted(answer.body, SubscriptionGroupConfig).retry_max_times
        except RocketMQError as error:
            log.warning("retryMaxTimes not known group=%s broker=%s error=%s", self._group, broker_name, error)
            return None
