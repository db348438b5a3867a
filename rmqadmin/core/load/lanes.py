"""One connection of a load: pending requests, and results from their answers. No trio and no task per request: a
request costs a few microseconds of this process, because the measured brokers may run on the same cores."""

from __future__ import annotations

import re
import socket
import time
from collections import deque
from collections.abc import Iterator
from itertools import cycle
from typing import TYPE_CHECKING

from rmqadmin.core.load.load_plan import Histogram, LanePlan, LoadPlan, LoadQueue
from rmqadmin.core.load.templates import (
    FIRST_NUMBER,
    LAST_NUMBER,
    STAMP_MARK,
    PullTemplate,
    send_template,
)
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.wire.command import Command, decode_frame_untrusted
from rmqproto.wire.frames import head_untrusted

if TYPE_CHECKING:
    import ssl

    from rmqadmin.core.load.secure_socket import SecureSocket

_RECEIVED = memoryview(bytearray(1 << 20))
"""Shared by all connections of the process: none has to make a buffer for each answer."""
_SUCCESS = b'{"code":0,'
_FRAME_HEAD_BYTES = 8
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_NEXT = re.compile(rb'"nextBeginOffset":"(\d+)"')


class Tally:
    """Counts since creation or ``taken``: ``good`` answers to sends, each of one request; ``pulled`` messages."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.good = self.pulled = self.pulled_bytes = self.received = 0
        self.errors: dict[str, int] = {}
        self.answers, self.deliveries = Histogram(), Histogram()

    def taken(self) -> Tally:
        """A copy of the counts, which then restart from zero."""
        other = Tally()
        other.__dict__.update(self.__dict__)
        self._clear()
        return other

    def error(self, what: str, count: int = 1) -> None:
        self.errors[what] = self.errors.get(what, 0) + count


class Lane:
    """The base of both kinds of lanes. ``is_alive`` until the connection ends; the process shares ``tally``."""

    def __init__(
        self, plan: LoadPlan, lane: LanePlan, tally: Tally, started_s: float, tls: ssl.SSLContext | None,
        numbers: Iterator[int],
    ):  # fmt: skip
        """Connects, over TLS with ``tls``. OSError or ConnectError if the broker cannot be reached."""
        self.plan, self.lane = plan, lane
        self._numbers = numbers
        self.in_flight = 0
        self.is_alive = True
        self.tally = tally
        self.started_s = started_s
        self._begun = b""
        self.unsent = b""
        self._sent_at: deque[tuple[float, int]] = deque()
        self.sock = _connected(plan, lane, tls)
        self.sock.setblocking(False)
        self.fd = self.sock.fileno()
        self.prepare()

    def prepare(self) -> None:
        """Makes what the requests are made of; a sender's is made anew now and then, because it holds the time."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Sends as much as there is room for."""
        raise NotImplementedError

    def send(self, requests: bytes, count: int, since_s: float) -> None:
        """Sends ``count`` requests. Their latencies count from ``since_s``."""
        self._sent_at.append((since_s, count))
        self.in_flight += count
        if not self.unsent:
            try:
                sent = self.sock.send(requests)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self.end(error.strerror or str(error))
                return
            if sent == len(requests):
                return
            requests = requests[sent:]
        self.unsent += requests

    def send_rest(self) -> None:
        try:
            self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            self.end(error.strerror or str(error))

    def end(self, why: str) -> None:
        """Closes the lane. Each pending request counts as an error."""
        self.is_alive = False
        self.tally.error(why, max(1, self.in_flight))
        self.in_flight, self.unsent = 0, b""
        self.sock.close()

    def receive(self) -> None:
        """Reads and counts the answers that have arrived."""
        try:
            size = self.sock.recv_into(_RECEIVED)
        except BlockingIOError:
            return
        except OSError as error:
            self.end(error.strerror or str(error))
            return
        if not size:
            self.end("the broker has closed the connection")
            return
        data = bytes(_RECEIVED[:size])
        if self._begun:
            data, self._begun = self._begun + data, b""
        at, end, count = 0, len(data), 0
        while end - at >= _FRAME_HEAD_BYTES:
            behind = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if behind > end:
                break
            self.answered(data, at, behind)
            count += 1
            at = behind
        if at < end and not self._keep(data[at:]):
            return
        if count:
            self._count(count)

    def _keep(self, begun: bytes) -> bool:
        """Keeps the beginning of a frame. False if it is not one."""
        self._begun = begun
        try:
            if len(begun) >= _FRAME_HEAD_BYTES:
                head_untrusted(begun)
        except ProtocolError as error:
            self.end(str(error))
        return self.is_alive

    def _count(self, count: int) -> None:
        """Records the latencies of ``count`` answers. Answers come in the order of the requests, or nearly so."""
        self.in_flight -= count
        now_s, answers, sent_at = time.perf_counter(), self.tally.answers, self._sent_at
        while count and sent_at:
            since_s, open_count = sent_at.popleft()
            taken = min(count, open_count)
            answers.add(int((now_s - since_s) * 1e6), taken)
            count -= taken
            if taken < open_count:
                sent_at.appendleft((since_s, open_count - taken))

    def answered(self, data: bytes, at: int, behind: int) -> None:
        raise NotImplementedError

    def taken_apart(self, data: bytes, at: int, behind: int) -> Command | None:
        """The decoded answer; None, and an error is counted, if it cannot be decoded."""
        try:
            return decode_frame_untrusted(data[at:behind])
        except ProtocolError as error:
            self.tally.error(str(error))
            return None


def _connected(plan: LoadPlan, lane: LanePlan, tls: ssl.SSLContext | None) -> socket.socket | SecureSocket:
    plain = socket.create_connection(plan.address_map.target(lane.host, lane.port), timeout=plan.timeout_s)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return plain
    from rmqadmin.core.load.secure_socket import SecureSocket  # ssl takes 10 ms, which a plain load does not need

    return SecureSocket(plain, tls, lane.host, lane.port)


class SendLane(Lane):
    """``fill`` makes the requests to send."""

    def prepare(self) -> None:
        self._templates = cycle([send_template(self.plan, queue.queue_id) for queue in self.lane.queues])

    def go_on(self) -> None:
        """Sends as much as there is room for; nothing if there is a rate, because requests are then sent when due."""
        plan = self.plan
        room = plan.in_flight - self.in_flight
        if room and not plan.rate:
            now_s = time.perf_counter()
            self.send(self.fill(room, int((now_s - self.started_s) * 1e6)), room, now_s)

    def fill(self, count: int, stamp_us: int) -> bytes:
        numbers, templates = self._numbers, self._templates
        if count == 1:
            return next(templates).fill(next(numbers), stamp_us)
        return b"".join([next(templates).fill(next(numbers), stamp_us) for _ in range(count)])

    def answered(self, data: bytes, at: int, behind: int) -> None:
        if data.startswith(_SUCCESS, at + _FRAME_HEAD_BYTES):
            self.tally.good += 1
            return
        answer = self.taken_apart(data, at, behind)
        if answer is None:
            return
        if answer.code in (ResponseCode.SUCCESS, *_WEAKER):
            self.tally.good += 1
            if answer.code:
                self.tally.error(f"stored, but {_name(answer.code)}")
        else:
            self.tally.error(f"{_name(answer.code)}: {(answer.remark or '').partition(',')[0]}")


_WEAKER = (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE)


def _name(code: int) -> str:
    try:
        return ResponseCode(code).name
    except ValueError:
        return f"code {code}"


class PullLane(Lane):
    """Pulls from all its queues at once, one request each, so that a queue that waits holds up no other."""

    def prepare(self) -> None:
        self._idle = [_Place(queue, PullTemplate(self.plan, queue.queue_id)) for queue in self.lane.queues]
        self._pulled: dict[int, tuple[_Place, float]] = {}
        """The queue and the time of each request, by the request's number."""
        self._stamps = re.compile(re.escape(STAMP_MARK + self.plan.run_id.encode()) + rb" (\d{10})")

    def go_on(self) -> None:
        if not self._idle:
            return
        now_s, requests = time.perf_counter(), []
        for place in self._idle:
            number = next(self._numbers)
            self._pulled[number] = place, now_s
            requests.append(place.template.fill(number, place.offset))
        self._idle.clear()
        self.send(b"".join(requests), len(requests), now_s)

    def _count(self, count: int) -> None:
        """Updates the pending count only: each answer has recorded its own latency."""
        self.in_flight -= count
        self._sent_at.clear()

    def answered(self, data: bytes, at: int, behind: int) -> None:
        body_at = at + _FRAME_HEAD_BYTES + int.from_bytes(data[at + 5 : at + 8], "big")
        header = data[at + _FRAME_HEAD_BYTES : body_at]
        number, found = _OPAQUE.search(header), _NEXT.search(header)
        asked = self._pulled.pop(int(number[1]), None) if number is not None else None
        if asked is None:
            self.tally.error("an answer to no request")
            return
        place, since_s = asked
        self._idle.append(place)
        if found is None or not header.startswith(_SUCCESS):
            self._nothing(place, data, at, behind)
            return
        self.tally.answers.add(int((time.perf_counter() - since_s) * 1e6))
        self.tally.pulled += int(found[1]) - place.offset
        self.tally.pulled_bytes += behind - body_at
        self._move(place, int(found[1]))
        if self.plan.is_stamped:
            self._take_stamps(data, body_at, behind)

    def _nothing(self, place: _Place, data: bytes, at: int, behind: int) -> None:
        """An answer without messages: the queue ends here, goes on at another offset, or the pull was refused."""
        answer = self.taken_apart(data, at, behind)
        if answer is None:
            return
        next_offset = answer.ext.get("nextBeginOffset", "")
        if answer.code in _NOTHING_THERE and next_offset.isdecimal():
            self._move(place, int(next_offset))
        else:
            self.tally.error(f"{_name(answer.code)}: {(answer.remark or '').partition(',')[0]}")

    def _move(self, place: _Place, offset: int) -> None:
        place.offset = place.begin_offset if self.plan.repeats and offset >= place.end_offset else offset

    def _take_stamps(self, data: bytes, start: int, end: int) -> None:
        now_us = int((time.perf_counter() - self.started_s) * 1e6)
        for stamp in self._stamps.finditer(data, start, end):
            self.tally.received += 1
            self.tally.deliveries.add(max(0, now_us - int(stamp[1])))


_NOTHING_THERE = (
    ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED,
)  # fmt: skip


class _Place:
    """A queue, and the queue offset of its next pull."""

    __slots__ = ("begin_offset", "end_offset", "offset", "template")

    def __init__(self, queue: LoadQueue, template: PullTemplate):
        self.template = template
        self.begin_offset = self.offset = queue.offset
        self.end_offset = queue.end_offset


def request_numbers() -> Iterator[int]:
    """Request numbers. They start again after a thousand million."""
    while True:
        yield from range(FIRST_NUMBER, LAST_NUMBER)
