"""Half messages and timers that ask for nothing else: a shortcut like that of the plain send, for messages that wait
elsewhere before they reach their queue. It stores the same bytes as the full way (``put.py``, ``rewrites.py``), and
leaves all unusual messages to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.message.properties import TIMER_NAMES, MessageKeys
from rmqproto.message.sys_flag import TRANSACTION_MASK
from rmqproto.names import TIMER_TOPIC, TRANSACTION_HALF_TOPIC
from rmqserver.broker.sending.properties import UNUSUAL_SYS_FLAG, USUAL
from rmqserver.broker.sending.put import SendOutcome
from rmqserver.broker.sending.recall import recall_handle

if TYPE_CHECKING:
    from rmqproto.headers.sending import SendHeader
    from rmqproto.message.message_id import UniqueIds
    from rmqserver.broker.sending.rewrites import TimerSlots
    from rmqserver.broker.sending.targets import Target
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.transaction_metrics import TransactionMetrics
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer
    from rmqserver.store.message_store import MessageStore

Place = tuple[str, bytes, int | None]
"""The topic in which a message waits, the property that says for what, and when a timer is due (ms)."""

_HALF = b"TRAN_MSG\x01true\x02"
_TIMER = b"TIMER_DEL"
"""How the names of timer properties begin."""


class WaitingPut:
    """``added_bytes`` are the properties that every message of a producer gets."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, stats: BrokerStats, metrics: TransactionMetrics,
        unique_ids: UniqueIds, slots: TimerSlots,
    ):  # fmt: skip
        self.added_bytes = b""
        self._config = config
        self._store = store
        self._stats = stats
        self._metrics = metrics
        self._unique_ids = unique_ids
        self._slots = slots

    def put(
        self,
        header: SendHeader,
        target: Target,
        peer: Peer,
        store_host: bytes,
        body: bytes,
        properties: bytes,
    ) -> SendOutcome | None:
        """Puts a half message or a timer. None, with nothing done, for a message that goes the full way. ``properties``
        end with a separator; ``target`` is plain. Raises as ``Put.put``."""
        sys_flag = header.sys_flag | target.sys_flag
        before, half, after = properties.partition(_HALF)
        if half:
            sys_flag &= ~TRANSACTION_MASK
            timer = b""
        else:
            before, timer, after = _parted_by_timer(properties)
            if not timer:
                return None
        keys = _keys_of(before, after)
        if keys is None or sys_flag & UNUSUAL_SYS_FLAG:
            return None
        unique_key = keys[0]
        if not unique_key:
            unique_key = self._unique_ids.next().encode()
            properties += b"UNIQ_KEY\x01%b\x02" % unique_key
            keys = unique_key, *keys[1:]
        place = self._half(unique_key) if half else self._timer(header.topic, timer)
        if place is None:
            return None
        topic, why, out_ms = place
        queue_id = target.choose_queue(header.queue_id, peer.address)
        appended = self._store.append(
            topic, 0, header.flag, sys_flag, header.born_timestamp, peer.born_host, store_host,
            header.reconsume_times, body,
            b"%b%b%b\x02REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02"
            % (properties, self.added_bytes, why, header.topic.encode(), queue_id),
            0, keys,
        )  # fmt: skip
        self._stats.puts[topic].add(1, appended.size_bytes)
        if out_ms is None:
            self._metrics.add(header.topic, 1)
            return SendOutcome(appended, queue_id, store_host, unique_key)
        self._slots.announce(appended.log_offset, header.topic, out_ms)
        handle = recall_handle(header.topic, self._config.broker_name, out_ms, unique_key.decode())
        return SendOutcome(appended, queue_id, store_host, unique_key, handle)

    def _half(self, unique_key: bytes) -> Place | None:
        if self._config.reject_transaction_message:
            return None
        return TRANSACTION_HALF_TOPIC, b"__transactionId__\x01%b" % unique_key, None

    def _timer(self, topic: str, timer: bytes) -> Place | None:
        """``timer`` is a whole property. None if it names no time that a producer may ask for."""
        name, _, value = timer.decode().partition("\x01")
        if topic == TIMER_TOPIC or name not in TIMER_NAMES or not value:
            return None
        out_ms = self._slots.out_ms(name, value)
        return None if out_ms is None else (TIMER_TOPIC, b"TIMER_OUT_MS\x01%d" % out_ms, out_ms)


def _parted_by_timer(properties: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the first timer property, that property, and what stands after it. The second is empty if
    there is none."""
    before, begin, rest = properties.partition(_TIMER)
    more, _, after = rest.partition(b"\x02")
    return before, begin + more, after


def _keys_of(before: bytes, after: bytes) -> MessageKeys | None:
    """The keys of a message, from what stands before and after the property by which it waits. None if it must go the
    full way, as it must if it already has a property that the broker adds, because that is changed in place."""
    others = before + after
    if (before and before[-1] != 2) or b"TIMER_" in others or b"REAL_" in others or b"__transactionId__" in others:
        return None
    usual = USUAL.fullmatch(others)
    if usual is None:
        return None
    unique_key, keys, tags = usual.groups(b"")
    return unique_key, keys, tags
