"""What becomes of a received message: acknowledge, change the invisible time, forward to the dead letters
(``AckMessageActivity``, ``ChangeInvisibleDurationActivity``, ``ForwardMessageToDLQActivity``, 5.5.0)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.codes import ResponseCode
from rmqproto.headers.popping import AckHeader, ChangeInvisibleTimeHeader
from rmqproto.headers.sending import SendBackHeader
from rmqproto.pop import real_topic
from rmqserver.broker.errors import as_refused
from rmqserver.broker.sending.pending import STORED
from rmqserver.doors.grpc.call_checks import check_group, check_invisible_ms, check_topic, ms_of
from rmqserver.doors.grpc.codes import OK, CallRefused, Code, status, status_of
from rmqserver.doors.grpc.messages import CLASSES
from rmqserver.doors.grpc.receipts import Receipt, Renewals, parse_receipt_untrusted
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.sending.pending import OnDone, Outcome
    from rmqserver.broker.sending.send_back import Returned
    from rmqserver.doors.grpc.link import GrpcCall, Guarded
    from rmqserver.operation import Peer


log = logging.getLogger(__name__)

BURIALS_MAX = 10_000
_ACKED = CLASSES["AckMessageResponse"]


class SettleCalls:
    """``renewals``: what push consumers hold."""

    def __init__(self, broker: Broker, guarded: Guarded):
        self._acks = broker.acks
        self._send_backs = broker.send_backs
        self._reads = broker.reads
        self._broker_name = broker.config.broker_name
        self._clock_ms = broker.clock_ms
        self._guarded = guarded
        self._post = broker.loop.post
        self._has_stopped = False
        self._burials = Burials(broker.clock_ms)
        self.renewals = Renewals(self.change_time, broker.clock_ms)

    def later(self, settle: Callable[[], None]) -> None:
        """Settles a message in a round of its own, for nobody who waits: it may be the end of one now, whose puts are
        being answered. What fails comes again at the end of its invisible time."""
        self._post(lambda: None if self._has_stopped else _settled(settle))

    def stop(self) -> None:
        """The broker ends, or has another role: what its clients hold comes again at the end of its invisible time. To
        give it back now would write to a log that the next master has already taken over."""
        self._has_stopped = True
        self.renewals.forget()

    def _receipt_untrusted(self, text: str) -> Receipt:
        """Raises CallRefused for what is no receipt of this broker: another's may name the place of a message here."""
        receipt = parse_receipt_untrusted(text)
        if receipt.handle.broker_name != self._broker_name:
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is of another broker")
        return receipt

    # --- acknowledge -------------------------------------------------------------------------------------------------

    def ack(self, call: GrpcCall, request: Any) -> None:
        topic, group = request.topic.name, request.group.name
        check_topic(topic)
        check_group(group)
        if not request.entries:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        answer = _ACKED(status=OK)
        codes = set()
        for entry in request.entries:
            message_id, text, told = entry.message_id, entry.receipt_handle, OK
            try:
                self._ack(call, group, topic, self._receipt_untrusted(text), entry.lite_topic)
                codes.add(Code.OK)
            except CallRefused as refusal:
                told = status(refusal.code, refusal.text)
                codes.add(refusal.code)
            answer.entries.add(message_id=message_id, receipt_handle=text, status=told)
        common = codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS
        if common is not Code.OK:
            answer.status.CopyFrom(status(common, common.name))
        call.answer(answer)

    def ack_together(self, peer: Peer, group: str, topic: str, before: str, offsets: list[int]) -> bool:
        """Acknowledges messages of one pop, at these queue offsets; ``before`` is what their receipt handles have
        before that. False, with nothing done, if they have to be looked at one by one."""
        receipt = self._receipt_untrusted(f"{before} {offsets[0]}")
        handle = receipt.handle
        if handle.is_ordered or receipt.ends_ms < self._clock_ms():
            return False
        held = [Receipt(handle._replace(queue_offset=each), None) for each in offsets] if self.renewals.are_any else []
        if any(self.renewals.current(group, topic, each) is not each for each in held):
            return False
        self._acks.ack_together(group, real_topic(topic, group, handle.kind), handle, offsets, peer)
        for each in held:
            self.renewals.settled(group, topic, each)
        return True

    def _ack(self, call: Peer, group: str, topic: str, receipt: Receipt, lite_topic: str = "") -> None:
        receipt = self._usable(group, topic, receipt, lite_topic)
        handle = receipt.handle
        header = AckHeader(
            consumer_group=group, topic=real_topic(topic, group, handle.kind), queue_id=handle.queue_id,
            extra_info=str(handle), offset=handle.queue_offset, lite_topic=lite_topic or None,
        )  # fmt: skip
        try:
            self._acks.ack(header, call, handle)
        except Refused:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal") from None
        self.renewals.settled(group, topic, receipt, lite_topic)

    def _usable(self, group: str, topic: str, receipt: Receipt, lite_topic: str) -> Receipt:
        """The receipt that counts. Raises CallRefused if its time is over."""
        receipt = self.renewals.current(group, topic, receipt, lite_topic)
        if receipt.ends_ms < self._clock_ms():
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")
        return receipt

    # --- change the invisible time -----------------------------------------------------------------------------------

    def change(self, call: GrpcCall, request: Any) -> None:
        topic, group = request.topic.name, request.group.name
        check_topic(topic)
        check_group(group)
        invisible_ms = ms_of(request.invisible_duration)
        check_invisible_ms(invisible_ms, 0)
        receipt = self._usable(group, topic, self._receipt_untrusted(request.receipt_handle), request.lite_topic)
        changed = self.change_time(group, topic, receipt, invisible_ms, call, request.lite_topic, request.suspend)
        self.renewals.settled(group, topic, receipt, request.lite_topic)
        text = f"{changed.handle} 0 {changed.log_offset}" if changed.log_offset is not None else str(changed.handle)
        call.answer(CLASSES["ChangeInvisibleDurationResponse"](status=OK, receipt_handle=text))

    def change_time(
        self,
        group: str,
        topic: str,
        receipt: Receipt,
        invisible_ms: int,
        peer: Peer,
        lite_topic: str = "",
        suspend: bool = False,
    ) -> Receipt:
        """Makes the message invisible for so long from now on; the receipt that counts then. Raises Refused."""
        handle = receipt.handle
        header = ChangeInvisibleTimeHeader(
            consumer_group=group, topic=real_topic(topic, group, handle.kind), queue_id=handle.queue_id,
            extra_info=str(handle), offset=handle.queue_offset, invisible_time=invisible_ms,
            lite_topic=lite_topic or None, suspend=suspend or None,
        )  # fmt: skip
        changed = self._acks.change(header, peer)
        after = handle._replace(
            start_offset=handle.start_offset if handle.is_ordered else handle.queue_offset,
            pop_time_ms=changed.pop_time, invisible_time_ms=changed.invisible_time, revive_queue_id=changed.revive_qid,
        )  # fmt: skip
        return Receipt(after, receipt.log_offset)

    # --- dead letters ------------------------------------------------------------------------------------------------

    def forward(self, call: GrpcCall, request: Any) -> None:
        topic, group = request.topic.name, request.group.name
        check_topic(topic)
        check_group(group)
        receipt = self._receipt_untrusted(request.receipt_handle)
        receipt = self._usable(group, topic, receipt, request.lite_topic)
        if receipt.log_offset is None:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, "commit log offset is empty")

        def on_done(outcome: Outcome) -> None:
            told = status(Code.OK, "0") if outcome.code == ResponseCode.SUCCESS else status_of(outcome)
            call.answer(CLASSES["ForwardMessageToDeadLetterQueueResponse"](status=told))

        guarded = partial(self._guarded, call)
        self._send_to_dead_letters(call, group, topic, receipt, request.lite_topic, on_done, guarded)

    def bury(self, call: GrpcCall, group: str, topic: str, receipt: Receipt, lite_topic: str) -> None:
        """A message that was tried too often goes to the dead letters in place of its consumer."""
        self._send_to_dead_letters(call, group, topic, receipt, lite_topic, lambda outcome: None, _settled)

    def _send_to_dead_letters(
        self,
        call: GrpcCall,
        group: str,
        topic: str,
        receipt: Receipt,
        lite_topic: str,
        on_done: OnDone,
        guarded: Callable[[Callable[[], None]], None],
    ) -> None:
        header = SendBackHeader(
            offset=receipt.log_offset or 0, group=group, delay_level=-1, origin_topic=topic, max_reconsume_times=0
        )

        place = receipt.handle.kind, receipt.handle.queue_id, receipt.handle.queue_offset
        key = (group, topic, *place, lite_topic)

        def when_stored(outcome: Outcome) -> None:
            if outcome.code == ResponseCode.SUCCESS:
                self.later(partial(self.ack_quietly, call, group, topic, receipt, lite_topic))
            self._burials.done(key, outcome)

        def then(returned: Returned | None) -> None:
            if not self._burials.begin(key, receipt.ends_ms, on_done):
                return
            if returned is None:  # the group keeps nothing for another time
                when_stored(STORED)
                return
            try:
                if returned.message.topic != real_topic(topic, group, receipt.handle.kind):
                    raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is invalid")
                self._send_backs.put(header, returned, 0, call, when_stored)
            except Exception:
                self._burials.forget(key)
                raise

        self._reads.read(partial(self._send_backs.load, header, call), then, guarded)

    def ack_quietly(self, call: GrpcCall, group: str, topic: str, receipt: Receipt, lite_topic: str) -> None:
        """Acknowledges in place of its consumer a message that it is not to see."""
        with contextlib.suppress(CallRefused):  # its time is over: it comes again, and has the same end
            self._ack(call, group, topic, receipt, lite_topic)

    def give_back(self, group: str, topic: str, receipt: Receipt, peer: Peer, lite_topic: str) -> None:
        """Makes a message that nobody got visible at once."""
        receipt = self.renewals.current(group, topic, receipt, lite_topic)
        self.renewals.settled(group, topic, receipt, lite_topic)
        with contextlib.suppress(Refused):  # it comes back at the end of its invisible time
            self.change_time(group, topic, receipt, 0, peer, lite_topic)


class _Burial:
    """``waiting`` are told how it ends; None once it has ended well."""

    def __init__(self, until_ms: int, waiting: list[OnDone] | None):
        self.until_ms, self.waiting = until_ms, waiting


class Burials:
    """Messages that have become dead letters, or are about to: a client that asks again, because it has missed the
    answer, makes no second one. Each counts until its receipt's time is over."""

    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._by_key: dict[tuple[object, ...], _Burial] = {}

    def begin(self, key: tuple[object, ...], until_ms: int, on_done: OnDone) -> bool:
        """Whether the caller is to bury it. Otherwise someone has, or does now; ``on_done`` is called in any case."""
        found = self._by_key.get(key)
        if found is not None and found.waiting is not None:
            found.waiting.append(on_done)
            return False
        if found is not None and self._clock_ms() <= found.until_ms:
            on_done(STORED)
            return False
        self._by_key.pop(key, None)
        self._by_key[key] = _Burial(until_ms, [on_done])
        if len(self._by_key) > BURIALS_MAX:
            oldest = next(iter(self._by_key))
            if self._by_key[oldest].waiting is None:
                del self._by_key[oldest]
        return True

    def done(self, key: tuple[object, ...], outcome: Outcome) -> None:
        burial = self._by_key[key]
        waiting, burial.waiting = burial.waiting or [], None
        if outcome.code != ResponseCode.SUCCESS:
            del self._by_key[key]
        for on_done in waiting:
            on_done(outcome)

    def forget(self, key: tuple[object, ...]) -> None:
        """It could not begin; whoever began it is told by other means."""
        del self._by_key[key]


def _settled(settle: Callable[[], None]) -> None:
    try:
        settle()
    except Exception as error:
        refused = as_refused(error)
        log.warning("event=not-settled reason=%r", str(error), exc_info=error if refused is None else None)
