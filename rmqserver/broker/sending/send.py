"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): the hottest path (``SendMessageProcessor``).

A plain message to a known topic costs one dict lookup, a few looks into its properties, the append and one rendered
answer. This is a shortcut past the full way (``special.py``, ``put.py``), and stores the same bytes; messages that are
not plain leave it early. Half messages and timers have a shortcut of their own (``waiting_put.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rmqproto.codes import ONEWAY_FLAG, SEND_CODES
from rmqproto.headers.sending import SendHeader
from rmqproto.message import properties as props
from rmqserver.broker.errors import as_refused
from rmqserver.broker.sending.batch import BatchPut
from rmqserver.broker.sending.pending import OnDone
from rmqserver.broker.sending.properties import (
    UNUSUAL_SYS_FLAG,
    USUAL,
    added_by_broker,
    waits_until_safe,
)
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.repeats import First, Repeats
from rmqserver.broker.sending.rewrites import Sender
from rmqserver.broker.sending.send_checks import refusal_of
from rmqserver.broker.sending.special import ProducerPut, recall_handle_of
from rmqserver.broker.sending.targets import Target, Targets, WhenTold, at_once
from rmqserver.broker.sending.waiting_put import WaitingPut
from rmqserver.doors.remoting.sent_answers import SentAnswers
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import Appended, MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.operation import Peer
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class SendOutcome(NamedTuple):
    """A message that was put, as its producer is told of it."""

    appended: Appended
    queue_id: int
    store_host: bytes
    unique_key: str | None
    recall_handle: str | None = None


OnSent = Callable[[SendOutcome], OnDone]


class Sends:
    def __init__(self, parts: BrokerParts, put: Put, when_told: WhenTold = at_once):
        """``when_told`` calls back when the nameservers know the topics as they are now."""
        self._config = parts.config
        self._store = parts.store
        self._stats = parts.stats
        self._address = parts.address
        self._put = put
        self._producer_put = ProducerPut(parts, put)
        self._batch_put = BatchPut(parts)
        self._waiting_put = WaitingPut(parts)
        self._repeats = Repeats(parts)
        self._targets = Targets(parts, when_told)
        self._when_told = when_told
        self._unique_ids = parts.unique_ids
        # The hot path would otherwise look these up in two steps.
        self._known_targets = self._targets.known
        self._append = parts.store.append
        self._when_written, self._when_safe = parts.pending.when_written, parts.pending.when_safe
        self.settings_changed()

    def handlers(self) -> dict[int, Handler]:
        return dict.fromkeys(SEND_CODES, self.send)

    def settings_changed(self) -> None:
        """To be called when a topic or a setting has changed."""
        self._known_targets.clear()
        added = added_by_broker(self._config)
        self._added_bytes = self._waiting_put.added_bytes = props.joined(added)
        self._answers = SentAnswers(added[props.MSG_REGION], added[props.TRACE_ON])
        self._answer_plain = self._answers.plain
        self._knows_safe = self._put.knows_safe

    def send(self, request: Request[SendHeader], connection: Connection) -> None:
        header = request.header
        try:
            target = self._known_targets.get(header.topic) or self._find_target(header, connection)
            queue_id = header.queue_id
            if not 0 <= queue_id < target.queue_limit:
                queue_id = target.choose_queue(queue_id, connection.address)
            if header.batch:
                return self._send_batch(request, connection, target, queue_id)
            properties = header.properties.encode()
            if properties and properties[-1] != 2:  # old clients leave out the last separator
                properties += b"\x02"
            usual = USUAL.fullmatch(properties)
            sys_flag = header.sys_flag | target.sys_flag
            if usual is None or (sys_flag and sys_flag & UNUSUAL_SYS_FLAG) or not target.is_plain:
                return self._send_unusual(request, connection, target, queue_id, properties)
            unique_key, keys, tags = usual.groups(b"")
            if not unique_key:
                unique_key = self._unique_ids.next().encode()
                properties += b"UNIQ_KEY\x01%b\x02" % unique_key
            store_host = self._address.advertised_host or connection.local_host
            appended = self._append(
                header.topic, queue_id, header.flag, sys_flag, header.born_timestamp, connection.born_host, store_host,
                header.reconsume_times, request.body, properties + self._added_bytes, 0, (unique_key, keys, tags),
            )  # fmt: skip
        except Exception as error:
            refused = self._refused(error)
            if refused is None:
                raise
            raise refused from None
        target.flow.add(1, appended.size_bytes)
        if not request.flag & ONEWAY_FLAG:
            if request.codec:
                answer = self._answers.when_done(
                    request, connection, store_host, appended, [appended.log_offset], queue_id, unique_key.decode()
                )
                self._put.when_stored(props.parse(header.properties), answer)
            else:
                waits = self._knows_safe and waits_until_safe(properties)
                (self._when_safe if waits else self._when_written).append(
                    (self._answer_plain, connection, request.opaque, store_host, appended, queue_id, unique_key)
                )

    def _find_target(self, header: SendHeader, peer: Peer) -> Target:
        return self._targets.find(header, self._address.ip(peer.local_addr))

    # --- messages that are not plain ---------------------------------------------------------------------------------

    def _send_unusual(
        self, request: Request[SendHeader], connection: Connection, target: Target, queue_id: int, properties: bytes
    ) -> None:
        """``properties`` end with a separator."""
        waiting = None
        if target.is_plain and not request.codec:
            header, store_host = request.header, self._address.record_host(connection)
            waiting = self._waiting_put.put(
                header, target, queue_id, connection.born_host, store_host, request.body, properties
            )
        if waiting is None:
            self._send_special(request, connection, target, queue_id)
        elif not request.flag & ONEWAY_FLAG:
            appended, unique_key, handle = waiting
            waits = self._knows_safe and waits_until_safe(properties)
            answered = connection, request.opaque, store_host, appended, queue_id, unique_key
            (self._when_safe if waits else self._when_written).append(
                (self._answer_plain, *answered) if handle is None else (self._answers.timer, *answered, handle)
            )

    def _send_special(
        self, request: Request[SendHeader], connection: Connection, target: Target, queue_id: int
    ) -> None:
        def answer(sent: SendOutcome) -> OnDone:
            return self._answers.when_done(
                request, connection, sent.store_host, sent.appended, [sent.appended.log_offset], sent.queue_id,
                sent.unique_key, sent.recall_handle,
            )  # fmt: skip

        on_sent = None if request.is_oneway else answer
        self._put_at(request.header, request.body, request.version, connection, target, queue_id, on_sent)

    def put(self, header: SendHeader, body: bytes, client_version: int, peer: Peer, on_sent: OnSent | None) -> None:
        """The operation behind a send, for any door: puts any producer's message but a batch. ``on_sent`` gets where
        the message went, and returns what is called once, when the message is as safe as its producer is promised, or
        is lost. Raises Refused."""
        try:
            target = self._known_targets.get(header.topic) or self._find_target(header, peer)
            queue_id = header.queue_id
            if not 0 <= queue_id < target.queue_limit:
                queue_id = target.choose_queue(queue_id, peer.address)
            self._put_at(header, body, client_version, peer, target, queue_id, on_sent)
        except Exception as error:
            refused = self._refused(error)
            if refused is None:
                raise
            raise refused from None

    def _put_at(
        self,
        header: SendHeader,
        body: bytes,
        client_version: int,
        peer: Peer,
        target: Target,
        queue_id: int,
        on_sent: OnSent | None,
    ) -> None:
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
            self._tell_again(target, message, first, on_sent)
            return
        sender = Sender(target, client_version, header.max_reconsume_times)
        appended, queue_id = self._producer_put.put(message, sender)
        self._repeats.stored(message, header.topic, appended)
        if on_sent is not None:
            handle = recall_handle_of(message, self._config.broker_name)
            on_done = on_sent(
                SendOutcome(appended, queue_id, message.store_host, message.properties[props.UNIQUE_KEY], handle)
            )
            self._put.when_stored(message.properties, on_done if target.is_told else self._told_too(on_done))

    def _tell_again(self, target: Target, message: NewMessage, first: First, on_sent: OnSent | None) -> None:
        """Tells what the producer would have been told the first time, as soon as it is true."""
        if on_sent is None:
            return
        sent = SendOutcome(first.appended, first.queue_id, first.store_host, message.properties.get(props.UNIQUE_KEY))
        self._put.when_stored_at(first.appended.log_offset, message.properties, on_sent(sent))

    def _send_batch(self, request: Request[SendHeader], connection: Connection, target: Target, queue_id: int) -> None:
        store_host = self._address.record_host(connection)
        stored = self._batch_put.put(request.header, target, queue_id, connection.born_host, store_host, request.body)
        if not request.is_oneway:
            answer = self._answers.when_done(
                request, connection, store_host, stored.first, stored.log_offsets, queue_id,
                stored.properties.get(props.UNIQUE_KEY),
            )  # fmt: skip
            self._put.when_stored(stored.properties, answer if target.is_told else self._told_too(answer))

    def _told_too(self, on_done: OnDone) -> OnDone:
        """Holds the answer to a producer that made a topic until the nameservers know it: a client that then asks for
        its route gets it, as with Apache's broker."""
        return lambda outcome: self._when_told(lambda: on_done(outcome))

    # --- refusals ----------------------------------------------------------------------------------------------------

    def _refused(self, error: Exception) -> Refused | None:
        """The refusal of a send, with the header of such refusals; None if the error is no refusal."""
        if isinstance(error, MessageRefused):
            self._stats.put_failed += 1
            refused = refusal_of(error, self._store)
        else:
            found = as_refused(error)
            if found is None:
                return None
            refused = found
        refused.header = self._answers.refused_header
        return refused
