"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): the hottest path (``SendMessageProcessor``).

A plain message to a known topic costs one dict lookup, a few looks into its properties, the append and one rendered
answer. This is a shortcut past the full way (``Sends.put``), and stores the same bytes; messages that are not plain
leave it early. Half messages and timers have a shortcut of their own (``waiting_put.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import ONEWAY_FLAG, SEND_CODES
from rmqproto.headers.sending import SendHeader, SendHeaderV2
from rmqproto.message import properties as props
from rmqserver.broker.sending.pending import STORED, Outcome, PendingPut
from rmqserver.broker.sending.properties import (
    ASKING_NAMES,
    UNUSUAL_SYS_FLAG,
    USUAL,
    added_by_broker,
    waits_until_safe,
)
from rmqserver.broker.sending.send import SendOutcome
from rmqserver.core import IS_NATIVE, PlainSends
from rmqserver.doors.remoting.sent_answers import SentAnswers
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqproto.message.message_id import UniqueIds
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.sending.send import OnSent, Sends
    from rmqserver.broker.sending.targets import Target
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.remoting.answer import Request
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.gate import Undecoded
    from rmqserver.remoting.service import Handler
    from rmqserver.store.message_store import MessageStore


log = logging.getLogger(__name__)


class SendHandlers:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, pending: PendingPuts, address: OwnAddress,
        unique_ids: UniqueIds, sends: Sends,
    ):  # fmt: skip
        self._sends = sends
        self._config = config
        self._address = address
        self._unique_ids = unique_ids
        # The hot path would otherwise look these up in two steps.
        self._known_targets = sends.known_targets
        self._append = store.append
        self._when_written, self._when_safe = pending.when_written, pending.when_safe
        self.plain_sends = PlainSends(
            store.round, store.queues.topics, sends.known_targets, address, unique_ids.next, _names(SendHeader),
            _names(SendHeaderV2), tuple(name.encode() for name in ASKING_NAMES), f"{props.PRODUCER_SEQ}\x01".encode(),
            UNUSUAL_SYS_FLAG,
        )  # fmt: skip
        """Takes plain sends before they come here."""
        self.may_put: Callable[[], bool] | None = None
        """What a member of a set looks at before each send; the handlers that replace these do so, too."""
        self._puts_answer = self._answer_puts  # one object, by which `pending` knows it
        if IS_NATIVE:
            pending.collect_from(self._collect, self._puts_answer)
        sends.on_settings_changed.append(self._settings_changed)
        self._settings_changed()

    def handlers(self) -> dict[int, Handler]:
        return dict.fromkeys(SEND_CODES, self.send)

    def ask(self, undecoded: Undecoded | None) -> None:
        """Has a gate asked before each send that the core takes, from now on."""
        may_put = self.may_put
        if may_put is None:
            self.plain_sends.admits = undecoded
        elif undecoded is None:
            self.plain_sends.admits = lambda *send: may_put()
        else:
            self.plain_sends.admits = lambda *send: undecoded(*send) and may_put()

    def _settings_changed(self) -> None:
        self._added_bytes, self._knows_safe = self._sends.added_bytes, self._sends.knows_safe
        added = added_by_broker(self._config)
        self._answers = SentAnswers(added[props.MSG_REGION], added[props.TRACE_ON])
        self._answer_plain = self._answers.plain
        self.plain_sends.configure(self._added_bytes, self._answers.pieces, self._knows_safe)

    def send(self, request: Request[SendHeader], connection: Connection) -> None:
        header = request.header
        try:
            if header.batch:
                on_sent = self._on_sent(request, connection)
                return self._sends.put_batch(header, request.body, connection, on_sent)
            target = self._known_targets.get(header.topic) or self._sends.find_target(header, connection)
            queue_id = header.queue_id
            if not 0 <= queue_id < target.queue_limit:
                queue_id = target.choose_queue(queue_id, connection.address)
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
            refused = self._sends.refused(error)
            if isinstance(refused, Refused):
                refused.header = self._answers.refused_header
            raise refused from None
        target.flow.add(1, appended.size_bytes)
        if not request.flag & ONEWAY_FLAG:
            if request.codec:
                sent = SendOutcome(appended, queue_id, store_host, unique_key.decode())
                self._sends.when_stored(
                    props.parse(header.properties), self._answers.when_done(request, connection, sent)
                )
            else:
                waits = self._knows_safe and waits_until_safe(properties)
                (self._when_safe if waits else self._when_written).append(
                    (self._answer_plain, connection, request.opaque, store_host, appended, queue_id, unique_key)
                )

    # --- what the native core took ---------------------------------------------------------------------------------

    def _collect(self) -> None:
        if (puts := self.plain_sends.take_written()) is not None:
            self._when_written.append((self._puts_answer, puts))
        if (puts := self.plain_sends.take_safe()) is not None:
            self._when_safe.append((self._puts_answer, puts))

    def _answer_puts(self, outcome: Outcome, put: PendingPut) -> None:
        _, puts = put
        answers = self.plain_sends.answers(puts) if outcome is STORED else self._answers.of_puts(outcome, puts)
        for connection, frames in answers:
            try:
                connection.put_out(frames)
            except Exception:  # one failing answer must not keep the others from theirs
                log.exception("event=put-not-answered")

    # --- messages that are not plain ---------------------------------------------------------------------------------

    def _send_unusual(
        self, request: Request[SendHeader], connection: Connection, target: Target, queue_id: int, properties: bytes
    ) -> None:
        """``properties`` end with a separator."""
        waiting = None
        if target.is_plain and not request.codec:
            header, store_host = request.header, self._address.record_host(connection)
            waiting = self._sends.waiting_put.put(
                header, target, queue_id, connection.born_host, store_host, request.body, properties
            )
        if waiting is None:
            self._send_special(request, connection)
        elif not request.flag & ONEWAY_FLAG:
            appended, unique_key, handle = waiting
            waits = self._knows_safe and waits_until_safe(properties)
            answered = connection, request.opaque, store_host, appended, queue_id, unique_key
            (self._when_safe if waits else self._when_written).append(
                (self._answer_plain, *answered) if handle is None else (self._answers.timer, *answered, handle)
            )

    def _send_special(self, request: Request[SendHeader], connection: Connection) -> None:
        on_sent = self._on_sent(request, connection)
        self._sends.put(request.header, request.body, request.version, connection, on_sent)

    def _on_sent(self, request: Request[SendHeader], connection: Connection) -> OnSent | None:
        return None if request.is_oneway else partial(self._answers.when_done, request, connection)


def _names(header: type[SendHeader]) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in header.__struct_encode_fields__)
