"""How a ledger recognises messages: by the queue offset and a mark of the unique key and the store time. Another
cluster, or the same one made anew, has other messages at the same offsets, even if its names are the same.

A message that was sent again carries an id of job and origin, which is the same on every attempt, in the property
``REPLAY_ID``. That name is not a reserved one, because the broker's own tools refuse to change reserved properties."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqreplay.source.offset_ranges import OffsetSet, parse_queue_text, queue_text

MARK_SIZE_BYTES = 8
LOG_OFFSET_DIGITS = 16
"""Of an offset message id. What precedes them is the store host, which a fail-over may change."""

Place = tuple[MessageQueue, int]
"""Source queue and queue offset: a message's origin."""

Runs = dict[str, list[tuple[int, int]]]


class BrokerSeen(msgspec.Struct, frozen=True):
    """What a job noted of a broker whose messages it sends: its cluster, and the addresses of all its replicas."""

    cluster: str = ""
    addresses: list[str] = []


class Witness(msgspec.Struct, frozen=True):
    """The last selected message of a queue. Queues only grow at their end: if this message is the same, all before it
    are."""

    queue_offset: int
    mark: bytes


class Letter(msgspec.Struct, frozen=True):
    """A message at a queue offset, as far as ledgers know it."""

    mark: bytes
    offset_message_id: str
    store_timestamp_ms: int


def mark_of(message_id: str, offset_message_id: str, store_timestamp_ms: int) -> bytes:
    """The mark of a message. ``message_id``: its unique key; without one, its offset message id."""
    name = message_id if message_id != offset_message_id else offset_message_id[-LOG_OFFSET_DIGITS:]
    text = f"{store_timestamp_ms}:{name}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=MARK_SIZE_BYTES).digest()


def letter_of(stored: StoredMessage, properties: Mapping[str, str] | None = None) -> Letter:
    found = stored.properties if properties is None else properties
    message_id = found.get(props.UNIQUE_KEY) or stored.message_id
    mark = mark_of(message_id, stored.message_id, stored.store_timestamp_ms)
    return Letter(mark, stored.message_id, stored.store_timestamp_ms)


def marked_runs(marks: Mapping[Place, bytes]) -> tuple[Runs, dict[str, bytes]]:
    """The places as runs of offsets, and by queue their marks in the order of the offsets."""
    by_queue: dict[MessageQueue, dict[int, bytes]] = {}
    for (queue, offset), mark in marks.items():
        by_queue.setdefault(queue, {})[offset] = mark
    joined = {queue_text(queue): b"".join(found[at] for at in sorted(found)) for queue, found in by_queue.items()}
    return OffsetSet.of_offsets(marks).to_json(), joined


def unmarked(runs: Runs, marks: Mapping[str, bytes]) -> dict[Place, bytes]:
    """What ``marked_runs`` was made of."""
    found: dict[Place, bytes] = {}
    for text, pairs in runs.items():
        queue, at = parse_queue_text(text), 0
        for start, end in pairs:
            for offset in range(start, end):
                found[queue, offset] = marks[text][at : at + MARK_SIZE_BYTES]
                at += MARK_SIZE_BYTES
    return found


class LetterBook:
    """The marks of all messages that a job has delivered, as its ledger's lines have them."""

    def __init__(self, lines: Iterable[tuple[Runs, Mapping[str, bytes]]]):
        self._runs: dict[MessageQueue, list[tuple[int, int, bytes, int]]] = {}
        for runs, marks in lines:
            for text, pairs in runs.items():
                data, at = marks.get(text, b""), 0
                if len(data) != MARK_SIZE_BYTES * sum(end - start for start, end in pairs):
                    data = b""
                for start, end in pairs:
                    self._runs.setdefault(parse_queue_text(text), []).append((start, end, data, at))
                    at += MARK_SIZE_BYTES * (end - start)
        for found in self._runs.values():
            found.sort(key=lambda run: run[:2])

    def mark(self, place: Place) -> bytes | None:
        """The mark of a message; b"" for one that was delivered without a mark, by an earlier version; None for one
        that was not delivered."""
        queue, offset = place
        runs = self._runs.get(queue, [])
        at = bisect_right(runs, offset, key=lambda run: run[0]) - 1
        if at < 0 or offset >= runs[at][1]:
            return None
        start, _, data, first = runs[at]
        begin = first + MARK_SIZE_BYTES * (offset - start)
        return data[begin : begin + MARK_SIZE_BYTES]


# --- the id of a message that was sent again -------------------------------------------------------------------------

REPLAY_ID = "REPLAY_ID"
REPLAY_ROUND = "REPLAY_ROUND"
"""How often a message was redriven, including this time."""


def replay_id(job: str, queue: MessageQueue, queue_offset: int) -> str:
    """``job:broker:topic:queueId:queueOffset`` of the origin."""
    return f"{job}:{queue.broker_name}:{queue.topic}:{queue.queue_id}:{queue_offset}"


def origin_of(text: str, job: str) -> tuple[MessageQueue, int] | None:
    """Source queue and queue offset of a replay id of ``job``; None for another job's id, or for a text that is no
    replay id."""
    if not text.startswith(job + ":"):
        return None
    parts = text[len(job) + 1 :].rsplit(":", 3)  # a broker name may contain a colon
    if len(parts) != 4 or not parts[2].isdecimal() or not parts[3].isdecimal():
        return None
    return MessageQueue(parts[1], parts[0], int(parts[2])), int(parts[3])
