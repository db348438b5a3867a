"""Sends of producers, for any door: one message, or a batch (``SendMessageProcessor``, 5.5.0). Messages that
ask only to be stored, or only to wait, have shortcuts past ``put``, which store the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.codes import ResponseCode
from rmqproto.message import properties as props
from rmqproto.message.properties import TIMER_NAMES, MessageKeys
from rmqproto.message.record import TOPIC_V1_LENGTH_MAX
from rmqproto.message.sys_flag import TRANSACTION_MASK
from rmqproto.names import RETRY_PREFIX, TIMER_TOPIC, TRANSACTION_HALF_TOPIC
from rmqserver.broker.errors import as_refused
from rmqserver.broker.sending.pending import OnDone
from rmqserver.broker.sending.properties import UNUSUAL_SYS_FLAG, USUAL, added_by_broker, delay_level
from rmqserver.broker.sending.put import Put, SendOutcome
from rmqserver.broker.sending.recall import recall_handle, recall_handle_of
from rmqserver.broker.sending.repeats import Repeats
from rmqserver.broker.sending.rewrites import Sender
from rmqserver.broker.sending.targets import Target, Targets, refusal_of
from rmqserver.core import Appended
from rmqserver.operation import Refused
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqproto.headers.sending import SendHeader
    from rmqproto.message.message_id import UniqueIds
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.sending.rewrites import TimerSlots
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.topic_counts import TransactionMetrics
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer
    from rmqserver.store.message_store import MessageStore


OnSent = Callable[[SendOutcome], OnDone]

_HALF = b"TRAN_MSG\x01true\x02"
_TIMER = b"TIMER_DEL"
"""How the names of timer properties begin."""


class Sends:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, stats: BrokerStats, address: OwnAddress, put: Put,
        targets: Targets, repeats: Repeats, unique_ids: UniqueIds, metrics: TransactionMetrics, slots: TimerSlots,
    ):  # fmt: skip
        self.when_stored = put.when_stored
        self.on_settings_changed: list[Callable[[], None]] = []
        """Called when ``added_bytes`` and ``knows_safe`` may have changed."""
        self._config = config
        self._store = store
        self._stats = stats
        self._address = address
        self._put = put
        self._repeats = repeats
        self._unique_ids = unique_ids
        self._metrics = metrics
        self._slots = slots
        self._targets = targets
        self.known_targets = self._targets.known
        self.settings_changed()

    def settings_changed(self) -> None:
        """To be called when a topic or a setting has changed."""
        self.known_targets.clear()
        self.added_bytes = props.joined(added_by_broker(self._config))
        self.knows_safe = self._put.knows_safe
        for told in self.on_settings_changed:
            told()

    def put(self, header: SendHeader, body: bytes, client_version: int, peer: Peer, on_sent: OnSent | None) -> None:
        """Puts any producer's message but a batch. ``on_sent`` gets where the message went, and returns what is called
        once, when the message is as safe as its producer is promised, or is lost. Raises Refused."""
        try:
            target, queue_id = self._place(header, peer)
            message = NewMessage(
                topic=header.topic,
                queue_id=queue_id,
                flag=header.flag,
                sys_flag=header.sys_flag,
                born_timestamp_ms=header.born_timestamp,
                born_host=peer.born_host,
                store_host=self._address.record_host(peer),
                reconsume_times=header.reconsume_times,
                body=body,
                properties=props.parse(header.properties),
            )
            first = self._repeats.first(message, header.queue_id)
            if first is not None:
                unique_key = message.properties.get(props.UNIQUE_KEY, "").encode()
                sent = SendOutcome(first.appended, first.queue_id, first.store_host, unique_key, is_repeat=True)
                self._tell_again(sent, first.appended.log_offset, message.properties, on_sent)
                return
            sender = Sender(target, client_version, header.max_reconsume_times)
            appended, queue_id = self._put.put_from(sender, message)
            self._repeats.stored(message, header.topic, appended)
            if on_sent is not None:
                handle = recall_handle_of(message, self._config.broker_name)
                unique_key = message.properties[props.UNIQUE_KEY].encode()
                on_done = on_sent(SendOutcome(appended, queue_id, message.store_host, unique_key, handle))
                self._put.when_stored(message.properties, on_done if target.is_told else self._told_too(on_done))
        except Exception as error:
            raise self.refused(error) from None

    def put_plain(self, header: SendHeader, body: bytes, properties: bytes, peer: Peer) -> SendOutcome | None:
        """A shortcut past ``put`` for a message that asks only to be stored, for a half message or a timer;
        ``properties``, in place of the header's, end with a separator. Returns where it went, with an alphanumeric
        unique key; ``when_stored`` is left to the caller. None, with nothing done, for any other message. Raises
        Refused."""
        try:
            target = self.known_targets.get(header.topic) or self._find_target(header, peer)
            if not target.is_plain or header.queue_id >= target.queue_limit:
                return None
            store_host = self._address.advertised_host or peer.local_host
            usual, sys_flag = USUAL.fullmatch(properties), header.sys_flag | target.sys_flag
            if usual is None or sys_flag & UNUSUAL_SYS_FLAG:
                return self._put_waiting(header, target, peer, body, properties)
            queue_id = header.queue_id if header.queue_id >= 0 else target.choose_queue(-1, peer.address)
            unique_key, keys, tags = usual.groups(b"")
            if not unique_key:
                unique_key = self._unique_ids.next().encode()
                properties += b"UNIQ_KEY\x01%b\x02" % unique_key
            appended = self._store.append(
                header.topic, queue_id, header.flag, sys_flag, header.born_timestamp, peer.born_host, store_host,
                header.reconsume_times, body, properties + self.added_bytes, 0, (unique_key, keys, tags),
            )  # fmt: skip
            target.flow.add(1, appended.size_bytes)
        except Exception as error:
            raise self.refused(error) from None
        return SendOutcome(appended, queue_id, store_host, unique_key)

    def _put_waiting(
        self, header: SendHeader, target: Target, peer: Peer, body: bytes, properties: bytes
    ) -> SendOutcome | None:
        """As ``put_plain``, for a half message or a timer that asks for nothing else: it waits elsewhere before it
        reaches its queue. Stores the same bytes as the full way."""
        sys_flag, timer, out_ms = header.sys_flag | target.sys_flag, b"", None
        before, half, after = properties.partition(_HALF)
        if half:
            sys_flag &= ~TRANSACTION_MASK
        else:
            before, begin, rest = properties.partition(_TIMER)
            more, _, after = rest.partition(b"\x02")
            timer = begin + more
        keys = _keys_of(before, after) if half or timer else None
        if keys is None or sys_flag & UNUSUAL_SYS_FLAG or (half and self._config.reject_transaction_message):
            return None
        if timer and (out_ms := self._timer_slot(header.topic, timer)) is None:
            return None
        unique_key = keys[0]
        if not unique_key:
            unique_key = self._unique_ids.next().encode()
            properties += b"UNIQ_KEY\x01%b\x02" % unique_key
            keys = unique_key, *keys[1:]
        if out_ms is None:
            topic, why = TRANSACTION_HALF_TOPIC, b"__transactionId__\x01%b" % unique_key
        else:
            topic, why = TIMER_TOPIC, b"TIMER_OUT_MS\x01%d" % out_ms
        queue_id, store_host = target.choose_queue(header.queue_id, peer.address), self._address.record_host(peer)
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

    def _timer_slot(self, topic: str, timer: bytes) -> int | None:
        """The time of the slot that a whole property asks for; None if it names no time that a producer may ask
        for."""
        name, _, value = timer.decode().partition("\x01")
        if topic == TIMER_TOPIC or name not in TIMER_NAMES or not value:
            return None
        return self._slots.out_ms(name, value)

    def append_plain(
        self, target: Target, queue_id: int, sys_flag: int, born_timestamp: int, body: bytes, properties: bytes,
        keys: MessageKeys, peer: Peer,
    ) -> Appended:  # fmt: skip
        """As ``put_plain``, with all that this finds out. Raises as the store does; nothing is stored then."""
        appended = self._store.append(
            target.config.topic_name, queue_id, 0, sys_flag, born_timestamp, peer.born_host,
            self._address.record_host(peer), 0, body, properties + self.added_bytes, 0, keys,
        )  # fmt: skip
        target.flow.add(1, appended.size_bytes)
        return appended

    def put_batch(self, header: SendHeader, body: bytes, peer: Peer, on_sent: OnSent | None) -> None:
        """As ``put``, for the messages in ``body``, all of one queue. Each is stored as a message of its own, without
        what the broker adds to one that comes alone. Raises ProtocolError, too, if they are none; nothing is stored
        then."""
        try:
            target, queue_id = self._place(header, peer)
            properties, store_host = self._batch_properties(header), self._address.record_host(peer)
            unique_key = properties.get(props.UNIQUE_KEY, "").encode()
            numbered = self._repeats.batch(header.topic, queue_id, header.queue_id, body)
            if numbered is not None and numbered.places:
                first, log_offsets = numbered.stored
                sent = SendOutcome(first, queue_id, store_host, unique_key, batch=log_offsets, is_repeat=True)
                self._tell_again(sent, log_offsets[-1], properties, on_sent)
                return
            first, log_offsets = self._store.append_batch(
                header.topic, queue_id, header.sys_flag | target.sys_flag, header.born_timestamp, peer.born_host,
                store_host, header.reconsume_times, body,
            )  # fmt: skip
        except Exception as error:
            raise self.refused(error) from None
        if numbered is not None:
            self._repeats.batch_stored(numbered, first, log_offsets)
        target.flow.add(len(log_offsets), len(body))
        if on_sent is not None:
            on_done = on_sent(SendOutcome(first, queue_id, store_host, unique_key, batch=log_offsets))
            self._put.when_stored(properties, on_done if target.is_told else self._told_too(on_done))

    def _batch_properties(self, header: SendHeader) -> dict[str, str]:
        """The properties of a batch, not of its messages. Raises Refused if it cannot be one."""
        topic, properties = header.topic, props.parse(header.properties)
        if len(topic) > TOPIC_V1_LENGTH_MAX:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(topic)}")
        if topic.startswith(RETRY_PREFIX):
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {topic}")
        if delay_level(properties) > 0:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        return properties

    def refused(self, error: Exception) -> Exception:
        """The refusal that an error of a send is; the error itself if it is none."""
        if isinstance(error, MessageRefused):
            self._stats.put_failed += 1
            return refusal_of(error, self._store)
        return as_refused(error) or error

    def _place(self, header: SendHeader, peer: Peer) -> tuple[Target, int]:
        target = self.known_targets.get(header.topic) or self._find_target(header, peer)
        return target, target.choose_queue(header.queue_id, peer.address)

    def _find_target(self, header: SendHeader, peer: Peer) -> Target:
        return self._targets.find(header, self._address.ip(peer.local_addr))

    def _tell_again(
        self, sent: SendOutcome, log_offset: int, properties: dict[str, str], on_sent: OnSent | None
    ) -> None:
        """Tells what the producer would have been told the first time, as soon as it is true up to ``log_offset``."""
        if on_sent is not None:
            self._put.when_stored_at(log_offset, properties, on_sent(sent))

    def _told_too(self, on_done: OnDone) -> OnDone:
        """Holds the answer to a producer that made a topic until the nameservers know it: a client that then asks for
        its route gets it, as with Apache's broker."""
        return lambda outcome: self._targets.when_told(lambda: on_done(outcome))


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
