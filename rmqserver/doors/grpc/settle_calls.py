"""What becomes of a received message: acknowledge, change the invisible time, forward to the dead letters
(``AckMessageActivity``, ``ChangeInvisibleDurationActivity``, ``ForwardMessageToDLQActivity``, 5.5.0)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.codes import ResponseCode
from rmqproto.headers.popping import AckHeader, ChangeInvisibleTimeHeader
from rmqproto.headers.sending import SendBackHeader
from rmqserver.broker.errors import as_refused
from rmqserver.broker.sending.pending import STORED
from rmqserver.doors.grpc.call_checks import check_invisible_ms, checked_names, ms_of
from rmqserver.doors.grpc.codes import OK, CallRefused, Code, refuse_if, status, status_of
from rmqserver.doors.grpc.messages import CLASSES
from rmqserver.doors.grpc.receipts import Receipt, Renewals, parse_receipt_untrusted
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.sending.pending import OnDone, Outcome
    from rmqserver.broker.sending.send_back import Returned
    from rmqserver.doors.grpc.link import GrpcCall
    from rmqserver.operation import GoOn, Guarded, Peer

log = logging.getLogger(__name__)

BURIALS_MAX = 10_000
_ACKED = CLASSES["AckMessageResponse"]


class SettleCalls:
    """``renewals``: what push consumers hold."""

    def __init__(self, broker: Broker):
        self._acks = broker.acks
        self._send_backs = broker.send_backs
        self._reads = broker.reads
        self._broker_name = broker.config.broker_name
        self._clock_ms = broker.clock_ms
        self._post = broker.loop.post
        self._has_stopped = False
        self._burials = Burials(broker.clock_ms)
        self.renewals = Renewals(self._change, broker.clock_ms)

    def later(self, settle: GoOn) -> None:
        """Settles a message in a round of its own, for nobody who waits: it may be the end of one now, whose puts are
        being answered. What fails comes again at the end of its invisible time."""
        self._post(lambda: None if self._has_stopped else _settled(settle))

    def stop(self) -> None:
        """The broker ends, or has another role: what its clients hold comes again at the end of its invisible time. To
        give it back now would write to a log that the next master has already taken over."""
        self._has_stopped = True
        self.renewals.forget()

    # --- receipts ----------------------------------------------------------------------------------------------------

    def _said(self, group: str, topic: str, said: Any) -> Receipt:
        """The receipt that counts for what a client says of a message. Raises CallRefused if it is none of this broker
        (another's may name the place of a message here), or if its time is over."""
        receipt = parse_receipt_untrusted(group, topic, said.receipt_handle, said.lite_topic)
        is_ours = receipt.handle.broker_name == self._broker_name
        refuse_if(not is_ours, Code.INVALID_RECEIPT_HANDLE, "receipt handle is of another broker")
        return self._usable(receipt)

    def _usable(self, receipt: Receipt) -> Receipt:
        """The receipt that counts. Raises CallRefused if its time is over."""
        receipt = self.renewals.current(receipt)
        is_over = receipt.ends_ms < self._clock_ms()
        refuse_if(is_over, Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")
        return receipt

    # --- acknowledge -------------------------------------------------------------------------------------------------

    def ack(self, call: GrpcCall, request: Any) -> None:
        topic, group = checked_names(request.topic, request.group)
        refuse_if(not request.entries, Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        answer = _ACKED(status=OK)
        codes = set()
        for entry in request.entries:
            told = OK
            try:
                self._ack(call, self._said(group, topic, entry))
            except CallRefused as refusal:
                told = refusal.status
            codes.add(told.code)
            answer.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=told)
        common = Code(codes.pop()) if len(codes) == 1 else Code.MULTIPLE_RESULTS
        if common is not Code.OK:
            answer.status.CopyFrom(status(common, common.name))
        call.answer(answer)

    def ack_together(self, peer: Peer, group: str, topic: str, before: str, offsets: list[int]) -> bool:
        """Acknowledges messages of one pop, at these queue offsets; ``before`` is what their receipt handles have
        before that. False, with nothing done, if they have to be looked at one by one."""
        receipt = parse_receipt_untrusted(group, topic, f"{before} {offsets[0]}")
        handle = receipt.handle
        if handle.broker_name != self._broker_name or handle.is_ordered or receipt.ends_ms < self._clock_ms():
            return False
        held: list[Receipt] = []
        if self.renewals.are_any:
            held = [receipt._replace(handle=handle._replace(queue_offset=each)) for each in offsets]
        if any(self.renewals.current(each) is not each for each in held):
            return False
        self._acks.ack_together(group, receipt.real_topic, handle, offsets, peer)
        for each in held:
            self.renewals.settled(each)
        return True

    def _ack(self, peer: Peer, receipt: Receipt) -> None:
        with _abnormal("ack"):
            self._acks.ack(AckHeader(**_place_of(receipt)), peer, receipt.handle)
        self.renewals.settled(receipt)

    def ack_quietly(self, peer: Peer, receipt: Receipt) -> None:
        """Acknowledges in place of its consumer a message that it is not to see."""
        with contextlib.suppress(CallRefused):  # its time is over: it comes again, and has the same end
            self._ack(peer, self._usable(receipt))

    # --- change the invisible time -----------------------------------------------------------------------------------

    def change(self, call: GrpcCall, request: Any) -> None:
        topic, group = checked_names(request.topic, request.group)
        invisible_ms = ms_of(request.invisible_duration)
        check_invisible_ms(invisible_ms, 0)
        receipt = self._said(group, topic, request)
        with _abnormal("changeInvisibleDuration"):
            changed = self._change(receipt, invisible_ms, call, suspend=request.suspend)
        self.renewals.settled(changed)
        is_plain = changed.log_offset is not None and not changed.lite_topic
        text = f"{changed.handle} 0 {changed.log_offset}" if is_plain else str(changed)
        call.answer(CLASSES["ChangeInvisibleDurationResponse"](status=OK, receipt_handle=text))

    def give_back(self, receipt: Receipt, peer: Peer) -> None:
        """Makes a message that nobody got visible at once."""
        receipt = self.renewals.current(receipt)
        self.renewals.settled(receipt)
        with contextlib.suppress(Refused):  # it comes back at the end of its invisible time
            self._change(receipt, 0, peer)

    def _change(self, receipt: Receipt, invisible_ms: int, peer: Peer, *, suspend: bool = False) -> Receipt:
        """Makes the message invisible for so long from now on; the receipt that counts then. Raises Refused."""
        handle = receipt.handle
        header = ChangeInvisibleTimeHeader(**_place_of(receipt), invisible_time=invisible_ms, suspend=suspend or None)
        changed = self._acks.change(header, peer)
        after = handle._replace(
            start_offset=handle.start_offset if handle.is_ordered else handle.queue_offset,
            pop_time_ms=changed.pop_time, invisible_time_ms=changed.invisible_time, revive_queue_id=changed.revive_qid,
        )  # fmt: skip
        return receipt._replace(handle=after)

    # --- dead letters ------------------------------------------------------------------------------------------------

    def forward(self, call: GrpcCall, request: Any) -> None:
        topic, group = checked_names(request.topic, request.group)
        receipt = self._said(group, topic, request)
        refuse_if(receipt.log_offset is None, Code.INTERNAL_SERVER_ERROR, "commit log offset is empty")

        def on_done(outcome: Outcome) -> None:
            told = status(Code.OK, "0") if outcome.code == ResponseCode.SUCCESS else status_of(outcome)
            call.answer(CLASSES["ForwardMessageToDeadLetterQueueResponse"](status=told))

        self._send_to_dead_letters(call, receipt, on_done, call.guarded)

    def bury(self, call: GrpcCall, receipt: Receipt) -> None:
        """A message that was tried too often goes to the dead letters in place of its consumer."""
        self._send_to_dead_letters(call, receipt, lambda outcome: None, _settled)

    def _send_to_dead_letters(self, call: GrpcCall, receipt: Receipt, on_done: OnDone, guarded: Guarded) -> None:
        header = SendBackHeader(
            offset=receipt.log_offset or 0, group=receipt.group, delay_level=-1, origin_topic=receipt.topic,
            max_reconsume_times=0,
        )  # fmt: skip

        def when_stored(outcome: Outcome) -> None:
            if outcome.code == ResponseCode.SUCCESS:
                self.later(partial(self.ack_quietly, call, receipt))
            self._burials.done(receipt, outcome)

        def then(returned: Returned | None) -> None:
            if not self._burials.begin(receipt, on_done):
                return
            if returned is None:  # the group keeps nothing for another time
                when_stored(STORED)
                return
            try:
                is_other = returned.message.topic != receipt.real_topic
                refuse_if(is_other, Code.INVALID_RECEIPT_HANDLE, "receipt handle is invalid")
                self._send_backs.put(header, returned, 0, call, when_stored)
            except Exception:
                self._burials.forget(receipt)
                raise

        self._reads.read(partial(self._send_backs.load, header, call), then, guarded)


class Burials:
    """Messages that have become dead letters, or are about to: a client that asks again, because it has missed the
    answer, makes no second one. Each counts until its receipt's time is over."""

    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._waiting: dict[tuple[object, ...], list[OnDone]] = {}
        """Who waits for the end of one that is under way, by message."""
        self._until_ms: dict[tuple[object, ...], int] = {}
        """Those that have ended well."""

    def begin(self, receipt: Receipt, on_done: OnDone) -> bool:
        """Whether the caller is to bury it. Otherwise someone has, or does now; ``on_done`` is called in any case."""
        message = receipt.message
        if message in self._waiting:
            self._waiting[message].append(on_done)
        elif self._clock_ms() <= self._until_ms.get(message, -1):
            on_done(STORED)
        else:
            self._waiting[message] = [on_done]
            return True
        return False

    def done(self, receipt: Receipt, outcome: Outcome) -> None:
        if outcome.code == ResponseCode.SUCCESS:
            self._until_ms.pop(receipt.message, None)
            self._until_ms[receipt.message] = receipt.ends_ms
            if len(self._until_ms) > BURIALS_MAX:
                del self._until_ms[next(iter(self._until_ms))]
        for on_done in self._waiting.pop(receipt.message):
            on_done(outcome)

    def forget(self, receipt: Receipt) -> None:
        """It could not begin; whoever began it is told by other means."""
        del self._waiting[receipt.message]


@contextlib.contextmanager
def _abnormal(what: str) -> Iterator[None]:
    """Refusals of the broker, in the words of the proxy."""
    try:
        yield
    except Refused:
        raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"{what} failed: status is abnormal") from None


def _place_of(receipt: Receipt) -> dict[str, Any]:
    """Fields of a header that tell which message it is of."""
    handle = receipt.handle
    return {
        "consumer_group": receipt.group, "topic": receipt.real_topic, "queue_id": handle.queue_id,
        "extra_info": str(handle), "offset": handle.queue_offset, "lite_topic": receipt.lite_topic or None,
    }  # fmt: skip


def _settled(settle: GoOn) -> None:
    try:
        settle()
    except Exception as error:
        refused = as_refused(error)
        log.warning("event=not-settled reason=%r", str(error), exc_info=error if refused is None else None)
