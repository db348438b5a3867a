"""Receipt handles: what a client says to acknowledge a message, and their renewal while a push consumer works on it
(``ReceiptHandle``, ``DefaultReceiptHandleManager``, 5.5.0).

A handle has the words of a POP ``extraInfo``, and then the message's commit log offset. Between them is a zero after a
change of the invisible time, or the lite topic: Java's client of 5.2.0 does not tell that when it changes the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.pop import Handle, parse_handle_untrusted, real_topic
from rmqserver.doors.grpc.codes import CallRefused, Code

if TYPE_CHECKING:
    from rmqserver.operation import Peer

log = logging.getLogger(__name__)

RENEWED_MS = 60_000
"""For how long a push consumer gets a message at first; then it is renewed as long as the consumer is there."""
RENEW_AHEAD_MS = 10_000
RENEWALS_MAX_MS = 3 * 3_600_000
GIVEN_BACK_MS = 1000
_MINUTES = (1, 3, 5, 10, 30, 60)
_WORDS_MIN = 8
_LITE = "lite:"


class Receipt(NamedTuple):
    """A message that a group has received, until its invisible time is over. ``topic`` is the one that was asked
    for."""

    group: str
    topic: str
    handle: Handle
    log_offset: int | None = None
    """None if the client's handle has none, or if nobody has looked."""
    lite_topic: str = ""

    def __str__(self) -> str:
        lite = f" {_LITE}{self.lite_topic}" if self.lite_topic else ""
        return f"{self.handle}{lite}" + (f" {self.log_offset}" if self.log_offset is not None else "")

    @property
    def ends_ms(self) -> int:
        return self.handle.pop_time_ms + self.handle.invisible_time_ms

    @property
    def real_topic(self) -> str:
        """The topic that the message was popped from."""
        return real_topic(self.topic, self.group, self.handle.kind)

    @property
    def message(self) -> tuple[object, ...]:
        """Which message it is of, however often its time was changed."""
        handle = self.handle
        return self.group, handle.kind, handle.queue_id, handle.queue_offset, self.topic, self.lite_topic


def parse_receipt_untrusted(group: str, topic: str, text: str, lite_topic: str = "") -> Receipt:
    """Raises CallRefused for what is no receipt: with the only code after which push consumers do not ask again."""
    words, last = text.split(" "), ""
    if len(words) > _WORDS_MIN:
        text, last = " ".join(words[:_WORDS_MIN]), words[-1]
        if words[_WORDS_MIN].startswith(_LITE):
            lite_topic = lite_topic or words[_WORDS_MIN].removeprefix(_LITE)
    log_offset = int(last) if last.isascii() and last.isdecimal() and len(last) <= 19 else None
    try:
        return Receipt(group, topic, parse_handle_untrusted(text), log_offset, lite_topic)
    except ProtocolError:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is invalid") from None


class HeldReceipt(msgspec.Struct):
    """A message that a push consumer works on, with the receipt that counts now."""

    client: Peer
    receipt: Receipt
    since_ms: int
    renewed_count: int = 0


Change = Callable[[Receipt, int, "Peer"], Receipt]
"""Makes a message invisible for so many ms, for a peer, and returns the receipt that counts from then on. Raises an
operation's refusal."""


class Renewals:
    """What push consumers hold, by message. ``change`` changes the invisible time of one."""

    def __init__(self, change: Change, clock_ms: Callable[[], int]):
        self._held: dict[tuple[object, ...], HeldReceipt] = {}
        self._change = change
        self._clock_ms = clock_ms

    def hold(self, receipt: Receipt, client: Peer) -> None:
        self._held[receipt.message] = HeldReceipt(client, receipt, self._clock_ms())

    def current(self, receipt: Receipt) -> Receipt:
        """The receipt that counts: the client never learns of renewals."""
        held = self._held.get(receipt.message)
        if held is None or held.receipt.ends_ms <= receipt.ends_ms:
            return receipt
        return held.receipt._replace(log_offset=receipt.log_offset)

    @property
    def are_any(self) -> bool:
        return bool(self._held)

    def settled(self, receipt: Receipt) -> None:
        self._held.pop(receipt.message, None)

    def renew(self) -> None:
        """Prolongs what ends soon, and gives back what was prolonged for too long. To be called every few seconds."""
        now_ms = self._clock_ms()
        for held in list(self._held.values()):
            if held.receipt.ends_ms - now_ms > RENEW_AHEAD_MS:
                continue
            if held.client.closed or now_ms - held.since_ms > RENEWALS_MAX_MS:
                self._give_back(held)
                continue
            self._prolong(held, 60_000 * _MINUTES[min(held.renewed_count, len(_MINUTES) - 1)])
            held.renewed_count += 1

    def forget(self) -> None:
        """Nothing is renewed any more."""
        self._held.clear()

    def client_gone(self, client: Peer) -> None:
        """Makes what the client holds visible again in a moment."""
        for held in [each for each in self._held.values() if each.client is client]:
            self._give_back(held)

    def _give_back(self, held: HeldReceipt) -> None:
        self._prolong(held, GIVEN_BACK_MS)
        self.settled(held.receipt)

    def _prolong(self, held: HeldReceipt, by_ms: int) -> None:
        """If that fails, the message comes again at the end of its time."""
        try:
            held.receipt = self._change(held.receipt, by_ms, held.client)
        except Exception as error:
            receipt = held.receipt
            log.warning("event=not-renewed group=%s topic=%s reason=%r", receipt.group, receipt.topic, str(error))
            self.settled(receipt)
