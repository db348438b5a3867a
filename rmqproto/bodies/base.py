"""Typed bodies: the JSON of requests and answers (the body classes of Apache RocketMQ 5.5.0).

Members are in the order of their wire names, as fastjson writes a bean, so ``fastjson.dumps`` of a Struct looks like
Apache's answer. Members that are None are not written. Times are ms since the epoch.
"""

from __future__ import annotations

import msgspec

from rmqproto.java.java_numbers import Int32, Int64


class Body(msgspec.Struct, kw_only=True, rename="camel"):
    """Base of all bodies."""


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """A queue's full name. Sorts by topic, broker and queue id, as clients sort queues before they allocate them.

    The wire has the members in another order, which does not matter to readers.
    """

    topic: str
    broker_name: str
    queue_id: Int32


class DataVersion(Body, kw_only=True):
    """How often a table was changed, and the time of the last change. Tables with different versions differ."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0
