"""Receipt handles: what a client says to acknowledge a message, and their renewal while a push consumer works on it
(``ReceiptHandle``, ``DefaultReceiptHandleManager``, 5.5.0).

A handle has the words of a POP ``extraInfo``, and then the message's commit log offset; after a change of the invisible
time there is one more word, a zero, before that offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.pop import Handle, parse_handle_untrusted
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


class Receipt(NamedTuple):
    handle: Handle
    log_offset: int | None
    """None if the client's handle has none."""

    def __str__(self) -> str:
        return f"{self.handle} {self.log_offset}"

    @property
    def ends_ms(self) -> int:
        return self.handle.pop_time_ms + self.handle.invisible_time_ms


def parse_receipt_untrusted(text: str) -> Receipt:
    """Raises CallRefused for what is no receipt: with the only code after which push consumers do not ask again."""
    words, last = text.split(" "), ""
    if len(words) > _WORDS_MIN:
        text, last = " ".join(words[:_WORDS_MIN]), words[-1]
    try:
        handle = parse_handle_untrusted(text)
        return Receipt(handle, int(last) if last.isascii() and last.isdecimal() and len(last) <= 19 else None)
    except ProtocolError:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is invalid") from None


class _Key(NamedTuple):
    group: str
    kind: str
    queue_id: int
    queue_offset: int
    topic: str
    lite_topic: str


class HeldReceipt(msgspec.Struct):
    """A message that a push consumer works on, with the receipt that counts now."""

    client: Peer
    receipt: Receipt
    since_ms: int
    renewed_count: int = 0


Change = Callable[[str, str, Receipt, int, "Peer", str], Receipt]
"""Makes a message of (group, topic) invisible for so many ms, for a peer and perhaps of a lite topic, and returns the
receipt that counts from then on. Raises an operation's refusal."""


class Renewals:
    """What push consumers hold. ``change`` changes the invisible time of a message."""

    def __init__(self, change: Change, clock_ms: Callable[[], int]):
        self._held: dict[_Key, HeldReceipt] = {}
        self._change = change
        self._clock_ms = clock_ms

    def hold(self, group: str, topic: str, receipt: Receipt, client: Peer, lite_topic: str = "") -> None:
        self._held[_key(group, topic, receipt, lite_topic)] = HeldReceipt(client, receipt, self._clock_ms())

    def current(self, group: str, topic: str, receipt: Receipt, lite_topic: str = "") -> Receipt:
        """The receipt that counts: the client never learns of renewals."""
        if not self._held:
            return receipt
        held = self._held.get(_key(group, topic, receipt, lite_topic))
        return held.receipt if held is not None and held.receipt.ends_ms > receipt.ends_ms else receipt

    @property
    def are_any(self) -> bool:
        return bool(self._held)

    def settled(self, group: str, topic: str, receipt: Receipt, lite_topic: str = "") -> None:
        if self._held:
            self._held.pop(_key(group, topic, receipt, lite_topic), None)

    def held_by(self, client: Peer) -> int:
        return sum(held.client is client for held in self._held.values())

    def renew(self) -> None:
        """Prolongs what ends soon, and gives back what was prolonged for too long. To be called every few seconds."""
        now_ms = self._clock_ms()
        for key, held in list(self._held.items()):
            if held.receipt.ends_ms - now_ms > RENEW_AHEAD_MS:
                continue
            if held.client.closed or now_ms - held.since_ms > RENEWALS_MAX_MS:
                self._give_back(key, held)
                continue
            minutes = _MINUTES[min(held.renewed_count, len(_MINUTES) - 1)]
            try:
                held.receipt = self._prolonged(key, held, minutes * 60_000)
                held.renewed_count += 1
            except Exception as error:
                log.warning("event=not-renewed group=%s topic=%s reason=%r", key.group, key.topic, str(error))
                del self._held[key]

    def forget(self) -> None:
        """Nothing is renewed any more."""
        self._held.clear()

    def client_gone(self, client: Peer) -> None:
        """Makes what the client holds visible again in a moment."""
        for key, held in [each for each in self._held.items() if each[1].client is client]:
            self._give_back(key, held)

    def _prolonged(self, key: _Key, held: HeldReceipt, by_ms: int) -> Receipt:
        return self._change(key.group, key.topic, held.receipt, by_ms, held.client, key.lite_topic)

    def _give_back(self, key: _Key, held: HeldReceipt) -> None:
        del self._held[key]
        try:
            self._prolonged(key, held, GIVEN_BACK_MS)
        except Exception as error:
            log.warning("event=not-given-back group=%s topic=%s reason=%r", key.group, key.topic, str(error))


def _key(group: str, topic: str, receipt: Receipt, lite_topic: str) -> _Key:
    handle = receipt.handle
    return _Key(group, handle.kind, handle.queue_id, handle.queue_offset, topic, lite_topic)
