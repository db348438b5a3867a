"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): the hottest path (``SendMessageProcessor``).

A plain message to a known topic is taken by the core, or by ``Sends.put_plain``, and its answer is rendered from a
template. All others go the full way (``Sends.put``).
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
from rmqserver.broker.sending.properties import ASKING_NAMES, UNUSUAL_SYS_FLAG, added_by_broker, waits_until_safe
from rmqserver.core import IS_NATIVE, PlainSends
from rmqserver.doors.remoting.sent_answers import SentAnswers
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqproto.message.message_id import UniqueIds
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.sending.send import OnSent, Sends
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
        self._knows_safe = self._sends.knows_safe
        added = added_by_broker(self._config)
        self._answers = SentAnswers(added[props.MSG_REGION], added[props.TRACE_ON])
        self._answer_put = self._answers.put
        self.plain_sends.configure(self._sends.added_bytes, self._answers.pieces, self._knows_safe)

    def send(self, request: Request[SendHeader], connection: Connection) -> None:
        header = request.header
        try:
            if header.batch:
                self._sends.put_batch(header, request.body, connection, self._on_sent(request, connection))
                return
            properties = header.properties.encode()
            if properties and properties[-1] != 2:  # old clients leave out the last separator
                properties += b"\x02"
            sent = self._sends.put_plain(header, request.body, properties, connection)
            if sent is None:
                self._send_special(request, connection)
                return
        except Refused as refused:
            refused.header = self._answers.refused_header
            raise
        if not request.flag & ONEWAY_FLAG:
            waits = self._knows_safe and waits_until_safe(properties)
            (self._when_safe if waits else self._when_written).append(
                (self._answer_put, connection, request.opaque, request.codec, sent)
            )

    def _send_special(self, request: Request[SendHeader], connection: Connection) -> None:
        on_sent = self._on_sent(request, connection)
        self._sends.put(request.header, request.body, request.version, connection, on_sent)

    def _on_sent(self, request: Request[SendHeader], connection: Connection) -> OnSent | None:
        return None if request.is_oneway else partial(self._answers.when_done, request, connection)

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


def _names(header: type[SendHeader]) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in header.__struct_encode_fields__)
