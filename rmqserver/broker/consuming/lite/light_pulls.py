"""Pulls of a lite topic (ext field ``liteTopic`` of 11 and 361, ``PullMessageProcessor``, 5.5.0). The parent topic
decides who may pull; the messages are those of the light queue. So are the offsets, and resets of the group: Apache's
broker counts them for the parent's queue, where they would mean other messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PullHeader
from rmqproto.names import lite_queue_name

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pull_checks import ReadChecks
    from rmqserver.broker.parts import BrokerParts


class LightPulls:
    def __init__(self, parts: BrokerParts, checks: ReadChecks):
        self._clients = parts.clients
        self._checks = checks

    def at_light_queue(self, header: PullHeader, peer: str) -> PullHeader:
        """The same pull, of the light queue by its name. It carries the group's subscription to the parent. Raises
        Refused as a pull of the parent does; ``peer`` is for remarks."""
        assert header.lite_topic
        group, _ = self._checks.group_and_topic(header.consumer_group, header.topic, header.queue_id, peer)
        self._checks.wanted(header, group)
        light = msgspec.structs.replace(header, topic=lite_queue_name(header.topic, header.lite_topic), lite_topic=None)
        if not header.sys_flag & PULL_SUBSCRIPTION:
            subscription = self._clients.consumers[header.consumer_group].subscriptions[header.topic]
            light.sys_flag |= PULL_SUBSCRIPTION
            light.subscription, light.expression_type = subscription.sub_string, subscription.expression_type
        return light
