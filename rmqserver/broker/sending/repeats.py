"""Messages that are sent again because their producer got no answer the first time: they are answered with the place
where they are, and not stored twice. They are recognized by a number with which their producer asks for this
(``PRODUCER_SEQ``, our extension), and if a setting says so, by their unique keys, which Java clients keep when they
send again."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.properties import find_bytes
from rmqproto.message.record import batch_parts_untrusted, decode_record_untrusted
from rmqproto.message.special_messages import ProducerSequence, parse_sequence_untrusted
from rmqproto.names import RETRY_PREFIX
from rmqserver.core import Appended
from rmqserver.operation import Refused
from rmqserver.store.sequences.sequence_table import LineKey, OutOfSequence, StoredPlace

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.new_message import NewMessage
    from rmqserver.store.sequences.sequence_feed import SequenceFeed

KEYS_KNOWN_MAX = 100_000
"""Unique keys that are known without asking the index."""

_MARK = props.PRODUCER_SEQ.encode() + b"\x01"

_WAITS_ELSEWHERE = (props.DELAY, *props.TIMER_NAMES, props.TRAN_MSG)
"""A message with one of these is not stored in its own queue."""


class First(NamedTuple):
    """Where a message was stored the first time. ``store_host`` is that of its record, as a host field."""

    appended: Appended
    queue_id: int
    store_host: bytes


class NumberedBatch(NamedTuple):
    """The number of a batch's first message, which those of the others follow, and where they all are; no places if
    they are to be stored now."""

    key: LineKey
    first: ProducerSequence
    places: list[StoredPlace]

    @property
    def stored(self) -> tuple[Appended, list[int]]:
        """The places, as an append tells them."""
        log_offset, queue_offset = self.places[0]
        return Appended(log_offset, 0, queue_offset), [place.log_offset for place in self.places]


class Repeats:
    def __init__(self, config: BrokerConfig, store: MessageStore, sequences: SequenceFeed):
        self._config = config
        self._sequences = sequences
        self._store = store
        self._keys = _UniqueKeys(config, store)

    def first(self, message: NewMessage, asked_queue_id: int) -> First | None:
        """Where the message already is; None if it is to be stored. ``asked_queue_id`` is the one that its producer
        asked for. Raises Refused if it asks for what cannot be done, and if its number is not the next."""
        number = message.properties.get(props.PRODUCER_SEQ)
        if number is not None:
            _check_plain(asked_queue_id, message.topic, message.properties)
            parsed = _parsed(number)
            places = self._found(LineKey(parsed.producer_id, message.topic, message.queue_id), parsed)
            return self._first_at(places[0], message) if places else None
        if self._config.unique_key_check_ms:
            return self._keys.first(message)
        return None

    def stored(self, message: NewMessage, topic: str, appended: Appended) -> None:
        """To be called when a message for which ``first`` found nothing was appended. It was sent to ``topic``; the
        rules may have changed it since."""
        number = message.properties.get(props.PRODUCER_SEQ)
        if number is not None:
            parsed = parse_sequence_untrusted(number)
            key = LineKey(parsed.producer_id, message.topic, message.queue_id)
            self._sequences.added(key, parsed, [(appended.log_offset, appended.queue_offset)])
        elif self._config.unique_key_check_ms and message.topic == topic:
            self._keys.add(message, appended)

    def batch(self, topic: str, queue_id: int, asked_queue_id: int, body: bytes) -> NumberedBatch | None:
        """The numbers of a batch send; None if it has none. Raises Refused as ``first``, and if the numbers do not
        follow each other, or only some of the messages are stored."""
        texts: list[bytes] = []
        if _MARK in body:
            texts = [find_bytes(properties[2:], _MARK) for _, _, properties in batch_parts_untrusted(body)]
        if not any(texts):
            return None
        _check_plain(asked_queue_id, topic, {})
        first = _parsed(texts[0].decode("ascii", "replace"))
        producer_id, epoch, start = first
        prefix, end = f"{producer_id}:{epoch}:".encode(), start + len(texts)
        if texts[1:] != [b"%b%d" % (prefix, number) for number in range(start + 1, end)]:
            for text in texts:
                _parsed(text.decode("ascii", "replace"))  # refuses what is no number
            reason = f"the numbers of a batch ({props.PRODUCER_SEQ}) are of one producer, and follow each other"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, reason)
        key = LineKey(producer_id, topic, queue_id)
        return NumberedBatch(key, first, self._found(key, first, len(texts)))

    def batch_stored(self, batch: NumberedBatch, first: Appended, log_offsets: list[int]) -> None:
        """To be called when a batch without places was appended."""
        self._sequences.added(batch.key, batch.first, list(zip(log_offsets, count(first.queue_offset), strict=False)))

    def _found(self, key: LineKey, first: ProducerSequence, size: int = 1) -> list[StoredPlace]:
        sequences = self._sequences
        if not sequences.is_ready:
            text = "this broker still reads its log for the numbers of its producers: send again in a moment"
            raise Refused(ResponseCode.SYSTEM_BUSY, text)
        try:
            return sequences.table.find_batch(key, first, size)
        except OutOfSequence as error:
            text = f"{props.PRODUCER_SEQ} {first.render()} to {key.topic}, queue {key.queue_id}: {error}"
            raise Refused(ResponseCode.ILLEGAL_OPERATION, text) from None

    def _first_at(self, place: StoredPlace, message: NewMessage) -> First:
        data = self._store.get_record(place.log_offset)
        # Without a record, readers do not see it yet, or retention has deleted it.
        host = decode_record_untrusted(data).store_host if data is not None else message.store_host
        return First(Appended(place.log_offset, 0, place.queue_offset), message.queue_id, host)


def _check_plain(asked_queue_id: int, topic: str, properties: dict[str, str]) -> None:
    problem = None
    if asked_queue_id < 0:
        problem = "its producer names the queue"
    elif topic.startswith(RETRY_PREFIX):
        problem = "it does not go to a retry topic"
    elif props.PRIORITY in properties:
        problem = "it has no priority, which chooses the queue"
    elif not properties.keys().isdisjoint(_WAITS_ELSEWHERE):
        problem = "it is neither delayed nor half of a transaction"
    if problem is not None:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"a message with {props.PRODUCER_SEQ} is a plain one: {problem}")


def _parsed(text: str) -> ProducerSequence:
    try:
        return parse_sequence_untrusted(text)
    except ProtocolError as error:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None


class _UniqueKeys:
    """The unique keys of the newest messages; older ones are looked up in the index."""

    def __init__(self, config: BrokerConfig, store: MessageStore):
        self._clock_ms = store.clock_ms
        self._config = config
        self._store = store
        self._newest: dict[tuple[str, str], tuple[First, int]] = {}
        """Where a message is, and when it was stored, by topic and unique key."""

    def first(self, message: NewMessage) -> First | None:
        unique_key = message.properties.get(props.UNIQUE_KEY)
        if unique_key is None or message.topic.startswith(RETRY_PREFIX):
            return None
        if not message.properties.keys().isdisjoint(_WAITS_ELSEWHERE):
            return None
        now_ms = self._clock_ms()
        begin_ms = now_ms - self._config.unique_key_check_ms
        known = self._newest.get((message.topic, unique_key))
        if known is not None:
            return known[0] if known[1] >= begin_ms else None
        return self._in_index(message.topic, unique_key, begin_ms, now_ms)

    def _in_index(self, topic: str, unique_key: str, begin_ms: int, end_ms: int) -> First | None:
        if not self._store.has_whole_index:
            text = "this broker still reads its log for the unique keys of messages: send again in a moment"
            raise Refused(ResponseCode.SYSTEM_BUSY, text)
        found = self._store.query(topic, unique_key, 32, begin_ms, end_ms)
        for record in map(decode_record_untrusted, found.records):
            if record.topic == topic and record.properties.get(props.UNIQUE_KEY) == unique_key:
                appended = Appended(record.log_offset, record.size_bytes, record.queue_offset)
                return First(appended, record.queue_id, record.store_host)
        return None

    def add(self, message: NewMessage, appended: Appended) -> None:
        key = message.topic, message.properties[props.UNIQUE_KEY]
        self._newest[key] = First(appended, message.queue_id, message.store_host), self._clock_ms()
        if len(self._newest) > KEYS_KNOWN_MAX:
            del self._newest[next(iter(self._newest))]
