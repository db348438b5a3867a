"""Sends several messages at once, over one connection per broker, and returns the outcome of each."""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.messages.importing.check import RefusedRow
from rmqclient.addresses import AddressMap
from rmqclient.blocking import OUTCOME_UNKNOWN
from rmqclient.message import SendResult
from rmqclient.remoting.requests import refusal, request_label
from rmqclient.sending import STORED_CODES, EncodedSend, send_result_untrusted
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, RequestTimeoutError
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials

if TYPE_CHECKING:
    from rmqreplay.sending.pipeline import Pipeline

_LABEL = request_label(RequestCode.SEND_MESSAGE_V2)


class Load(msgspec.Struct, kw_only=True):
    """One message of the source. ``encoded`` is sent to ``queue``; it is None if the message was sent before, or no
    broker accepts it. ``outcome`` is None until it is known."""

    number: int
    queue: MessageQueue | None = None
    addr: str = ""
    encoded: EncodedSend | None = None
    message_id: str | None = None
    tries: int = 0
    is_present: bool = False
    outcome: SendResult | RefusedRow | None = None

    @property
    def is_settled(self) -> bool:
        return self.is_present or self.outcome is not None


class Lanes:
    """Connections to brokers, made when needed. ``close`` closes them."""

    def __init__(
        self, credentials: Credentials | None, tls: ssl.SSLContext | None, address_map: AddressMap, timeout_s: float
    ):
        self._credentials = credentials
        self._tls = tls
        self._address_map = address_map
        self._timeout_s = timeout_s
        self._lanes: dict[str, Pipeline] = {}
        self._deadlines_s: dict[int, float] = {}

    def put(self, load: Load) -> None:
        """Sends a message. ConnectError if the broker cannot be reached; the message was then not sent."""
        from rmqreplay.sending.pipeline import Pipeline  # only for senders

        assert load.encoded is not None
        lane = self._lanes.get(load.addr)
        if lane is None:
            lane = self._lanes[load.addr] = Pipeline(load.addr, self._credentials, self._tls, self._address_map)
        lane.connect()
        self._deadlines_s[load.number] = time.monotonic() + self._timeout_s
        lane.put(
            load, RequestCode.SEND_MESSAGE_V2, load.encoded.ext, load.encoded.body,
            not_after=float("inf"), timeout_s=self._timeout_s,
        )  # fmt: skip

    def answers(self) -> list[tuple[Load, Command | None]]:
        """The answers to at least one pending message, with None for a message that gets no answer. [] if none is
        pending."""
        from rmqreplay.sending.pipeline import wait_for_answers

        found = []
        for each in wait_for_answers(list(self._lanes.values())):
            assert isinstance(each.tag, Load)
            found.append((each.tag, each.command))
        return found

    def result(self, load: Load, answer: Command | None) -> SendResult:
        """The result in an answer. RefusedError if the broker refused; ConnectError or RequestTimeoutError if there is
        no answer."""
        assert load.queue is not None
        assert load.encoded is not None
        if answer is None:
            if time.monotonic() >= self._deadlines_s[load.number]:
                raise RequestTimeoutError(f"{load.addr} did not answer {_LABEL} in time", hint=OUTCOME_UNKNOWN)
            raise ConnectError(f"{_LABEL} to {load.addr} failed: the connection broke", address=load.addr)
        if answer.code not in STORED_CODES:
            raise refusal(answer, load.addr)
        return send_result_untrusted(answer, load.encoded.unique_keys, load.queue)

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
