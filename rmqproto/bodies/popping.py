"""Bodies of POP: entries of the revive log, batch acknowledgements, and the assignment of queues by the broker
(``PopCheckPoint``, ``AckMsg``, ``BatchAckMsg``, ``BatchAck``, 5.5.0). Times are ms since 1970, offsets queue
offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rmqproto.bodies.base import Body, MessageQueue
from rmqproto.java.java_numbers import Int32, Int64


def _as(name: str) -> Any:
    return msgspec.field(name=name)


class CheckPoint(Body, kw_only=True):
    """Messages of one queue that one pop returned. They are invisible until ``pop_time`` + ``invisible_time``.

    A message's offset is ``start_offset`` plus its entry of ``offset_diffs``. Check points of old brokers have no such
    entries; there it is ``start_offset`` plus the message's number. Bit ``n`` of ``bit_map`` says that message ``n`` is
    acknowledged."""

    bit_map: Int32 = msgspec.field(default=0, name="bm")
    broker_name: str | UnsetType | None = msgspec.field(default=UNSET, name="bn")
    consumer_group: str = _as("c")
    offset_diffs: list[Int32] | UnsetType | None = msgspec.field(default=UNSET, name="d")
    invisible_time: Int64 = _as("it")
    message_count: Int32 = _as("n")
    pop_time: Int64 = _as("pt")
    queue_id: Int32 = _as("q")
    revive_time: Int64 | UnsetType | None = msgspec.field(default=UNSET, name="reviveTime")
    """The sum of the two others, written for Apache's readers."""
    revive_offset: Int64 = msgspec.field(default=0, name="ro")
    put_again_times: str | UnsetType | None = msgspec.field(default=UNSET, name="rp")
    start_offset: Int64 = _as("so")
    is_suspended: bool = msgspec.field(default=False, name="sp")
    topic: str = _as("t")

    @property
    def offsets(self) -> list[int]:
        start, diffs = self.start_offset, self.offset_diffs or range(self.message_count)
        return [start + diff for diff in diffs]


class AckMessage(Body, kw_only=True):
    """Acknowledged messages of a check point: ``ack_offset``, or those of ``ack_offsets``."""

    ack_offset: Int64 = msgspec.field(default=-1, name="ao")
    ack_offsets: list[Int64] | UnsetType | None = msgspec.field(default=UNSET, name="aol")
    broker_name: str | UnsetType | None = msgspec.field(default=UNSET, name="bn")
    consumer_group: str = _as("c")
    pop_time: Int64 = _as("pt")
    queue_id: Int32 = _as("q")
    start_offset: Int64 = _as("so")
    topic: str = _as("t")

    @property
    def offsets(self) -> list[int]:
        return self.ack_offsets if isinstance(self.ack_offsets, list) else [self.ack_offset]


encode_entry: Callable[[CheckPoint | AckMessage], bytes] = msgspec.json.Encoder().encode
"""Writes the same as ``fastjson.dumps`` in a tenth of the time: these bodies have nothing that the dialect writes
differently. Unset members are left out."""


class BatchAck(Body, kw_only=True):
    """Acknowledged messages of one pop. ``bits`` is a set of offsets, counted from ``start_offset``
    (``rmqproto.pop.diffs_of_untrusted``)."""

    bits: str = _as("b")
    consumer_group: str = _as("c")
    invisible_time: Int64 = _as("it")
    pop_time: Int64 = _as("pt")
    queue_id: Int32 = _as("q")
    retry: str = _as("r")
    revive_queue_id: Int32 = _as("rq")
    start_offset: Int64 = _as("so")
    topic: str = _as("t")


class BatchAcks(Body, kw_only=True):
    """Body of 200151."""

    acks: list[BatchAck] | None = None
    broker_name: str | None = None


class RequestMode(Body, kw_only=True):
    """Body of 401: how a group gets a topic's messages, ``PULL`` or ``POP``. ``pop_share_queue_num``: the number of
    other clients with which a client shares its queues; with 0 or less all share all."""

    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: Int32 = 0
    topic: str


class RequestModes(Body, kw_only=True):
    """``messageRequestMode.json``: by topic and group."""

    message_request_mode_map: dict[str, dict[str, RequestMode]] = {}


class AssignmentRequest(Body, kw_only=True):
    """Body of 400."""

    client_id: str | None = None
    consumer_group: str
    message_model: str = "CLUSTERING"
    strategy_name: str | None = None
    topic: str


class QueueAssignment(Body, kw_only=True):
    message_queue: MessageQueue
    mode: str


class Assignments(Body, kw_only=True):
    """Answer of 400. With None the broker knows no assignment, and the client keeps its queues."""

    message_queue_assignments: list[QueueAssignment] | None = None
