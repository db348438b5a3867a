"""Calls that come whole and ask for nothing unusual: a send of one message that is only to be stored, and an
acknowledgement of one. They go past the objects of calls and messages, and store and answer what the general way does.
What is not certainly so is left to that, with nothing done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.codes import PERM_WRITE
from rmqproto.codes import TopicMessageType as Type
from rmqproto.message import properties as props
from rmqserver.broker.sending.pending import STORED
from rmqserver.broker.sending.properties import ASKING_NAMES
from rmqserver.core import cut_ack, cut_send
from rmqserver.doors.grpc.call_bytes import client_id_of, framed, is_grpc, packed
from rmqserver.doors.grpc.call_checks import SYSTEM_PROPERTIES, check_group, check_topic
from rmqserver.doors.grpc.codes import OK, status_of
from rmqserver.doors.grpc.messages import CLASSES, SERVICE
from rmqserver.doors.grpc.route_calls import expected_type
from rmqserver.doors.grpc.security import to_consume, to_send
from rmqserver.doors.grpc.send_calls import ANY_QUEUE

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.sending.pending import Outcome, PendingPut
    from rmqserver.doors.grpc.http2_frames import Metadata, StreamEvent
    from rmqserver.doors.grpc.link import Link
    from rmqserver.doors.grpc.security import Guard
    from rmqserver.doors.grpc.settle_calls import SettleCalls

_Pop = tuple[str, str, str]
"""Group, topic, and what the receipt handles of a pop's messages begin with."""
_Acked = tuple["StreamEvent", bytes, bytes, int]
"""The call, message id, receipt handle, queue offset."""

RESERVED = frozenset(
    name.encode()
    for name in {
        *SYSTEM_PROPERTIES, *ASKING_NAMES, props.UNIQUE_KEY, props.PRODUCER_GROUP, props.TAGS, props.KEYS, props.WAIT,
        props.TRACE_CONTEXT, props.RECONSUME_TIME, props.BORN_HOST, props.BORN_TIMESTAMP, props.SHARDING_KEY,
    }
)  # fmt: skip
"""Names of user properties with which a message is not plain: the broker's own, and those that are set from fields."""


class PlainCalls:
    """``take`` is given the calls of one read. ``settle`` ends what it has begun, before any other call and when the
    read ends: acknowledgements of one pop are put together."""

    def __init__(self, broker: Broker, settling: SettleCalls, guard: Guard | None):
        self._guard = guard
        self._sends = broker.sends
        self._pending = broker.pending
        self._clock_ms = broker.clock_ms
        self._settling = settling
        self._takes: dict[bytes, Callable[[Link, StreamEvent, Metadata], bool]] = {
            f"/{SERVICE}/SendMessage".encode(): self._send, f"/{SERVICE}/AckMessage".encode(): self._ack,
        }  # fmt: skip
        self._acked: dict[_Pop, list[_Acked]] = {}

    def take(self, link: Link, event: StreamEvent) -> bool:
        """Takes a call, and answers it later or now; False, with nothing done, if it is not plain."""
        metadata = event.metadata
        take = self._takes.get(metadata[b":path"]) if metadata is not None and event.is_last else None
        if take is None or metadata is None or not is_grpc(metadata) or not client_id_of(metadata).strip():
            return False
        try:
            return take(link, event, metadata)
        except Exception:  # the general way says why
            return False

    def settle(self, link: Link) -> None:
        """Puts and answers the acknowledgements that were taken."""
        if not self._acked:
            return
        acked, self._acked = self._acked, {}
        for (group, topic, before), of_pop in acked.items():
            offsets = [offset for _, _, _, offset in of_pop]
            try:
                check_topic(topic)
                check_group(group)
                are_done = self._settling.ack_together(link.connection, group, topic, before, offsets)
            except Exception:  # the general way says why
                are_done = False
            for asked, message_id, receipt, _ in of_pop:
                if are_done:
                    link.answer(asked.stream, framed(acked_answer(message_id, receipt)))
                else:
                    link.take(asked)

    # --- sends -------------------------------------------------------------------------------------------------------

    def _send(self, link: Link, asked: StreamEvent, metadata: Metadata) -> bool:
        cut = cut_send(asked.data, RESERVED, link.connection.address)
        if cut is None:
            return False
        topic, sys_flag, born_ms, body, properties, keys = cut
        target = self._sends.known_targets.get(topic)
        if target is None or not target.is_plain or not target.config.perm & PERM_WRITE:
            return False
        if expected_type(target.config) not in (Type.NORMAL, Type.MIXED):
            return False
        if self._guard is not None:
            self._guard.check(metadata, link.connection.real_address, [to_send(topic)])
        check_topic(topic)
        appended = self._sends.append_plain(
            target, target.choose_queue(ANY_QUEUE, ""), sys_flag | target.sys_flag, born_ms or self._clock_ms(),
            body, properties, keys, link.connection,
        )  # fmt: skip
        waiting = self._pending.when_safe if self._sends.knows_safe else self._pending.when_written
        waiting.append((_answer_send, link, asked.stream, keys[0], appended.queue_offset))
        return True

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def _ack(self, link: Link, asked: StreamEvent, metadata: Metadata) -> bool:
        cut = cut_ack(asked.data)
        if cut is None:
            return False
        group, topic, message_id, receipt, before, offset = cut
        if self._guard is not None:
            self._guard.check(metadata, link.connection.real_address, to_consume(group, topic))
        self._acked.setdefault((group, topic, before), []).append((asked, message_id, receipt, offset))
        return True


def _answer_send(outcome: Outcome, put: PendingPut) -> None:
    _, link, stream, message_id, queue_offset = put
    if outcome is STORED:
        link.answer(stream, framed(sent_answer(message_id, queue_offset)))
    else:
        link.answer(stream, packed(CLASSES["SendMessageResponse"](status=status_of(outcome))))


# --- answers as protobuf would write them, which takes ten times as long ----------------------------------------------

_OK = OK.SerializeToString()
_STATUS_OK = b"\x0a%c%b" % (len(_OK), _OK)
"""The first field of every answer that we make here."""


def sent_answer(message_id: bytes, queue_offset: int) -> bytes:
    """The bytes of a SendMessageResponse for one stored message."""
    size = len(message_id)
    offset = b"\x20" + _varint(queue_offset) if queue_offset else b""
    entry_size = len(_STATUS_OK) + 4 + 2 * size + len(offset)
    return b"%b\x12%c%b\x12%c%b\x1a%c%b%b" % (
        _STATUS_OK, entry_size, _STATUS_OK, size, message_id, size, message_id, offset,
    )  # fmt: skip


def acked_answer(message_id: bytes, receipt: bytes) -> bytes:
    """The bytes of an AckMessageResponse for one message that was acknowledged."""
    entry = b"\x0a%c%b\x12%b%b\x1a%c%b" % (
        len(message_id), message_id, _varint(len(receipt)), receipt, len(_OK), _OK,
    )  # fmt: skip
    return b"%b\x12%b%b" % (_STATUS_OK, _varint(len(entry)), entry)


def _varint(value: int) -> bytes:
    if value < 1 << 7:
        return b"%c" % value
    if value < 1 << 14:
        return b"%c%c" % (value & 127 | 128, value >> 7)
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
