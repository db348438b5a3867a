"""One process of a load: ``python -m rmqadmin.core.load.worker``. ``load_plan.py`` describes its input and output."""

import select
import sys
import time
from collections import deque
from contextlib import suppress
from typing import BinaryIO

import msgspec

from rmqadmin.core.load.lanes import Lane, PullLane, SendLane, Tally, request_numbers
from rmqadmin.core.load.load_plan import IntervalReport, LoadPlan, ReadyReport, Report
from rmqproto.errors import RocketMQError

_WAIT_MAX_S = 0.1
_RENEWED_EVERY_S = 1.0
_QUIET_S = 0.5
"""No more messages are expected this long after the last one."""
_STOPPED_WAIT_S = 0.5
"""How long a load that the user stops waits for the answers that are still missing."""


class Worker:
    """The process. ``run`` works until the duration is over, the input ends, or no connection is left."""

    def __init__(self, plan: LoadPlan, told: BinaryIO, telling: BinaryIO):
        self.plan = plan
        self._told, self._telling = told, telling
        self._tally = Tally()
        self._started_s = time.perf_counter()
        self._numbers = request_numbers()
        self._epoll = select.epoll()
        self._by_fd: dict[int, Lane] = {}
        self._senders: deque[SendLane] = deque()
        self._next_at_s = 0.0
        self._is_stopped = False
        self._unanswered = 0

    def connect(self) -> None:
        tls = None if self.plan.tls is None else self.plan.tls.context()
        for plan in self.plan.lanes:
            kind = SendLane if plan.sends else PullLane
            lane = kind(self.plan, plan, self._tally, self._started_s, tls, self._numbers)
            self._by_fd[lane.fd] = lane
            if isinstance(lane, SendLane):
                self._senders.append(lane)
            self._epoll.register(lane.fd, select.EPOLLIN)

    def run(self) -> None:
        plan, now_s = self.plan, time.perf_counter()
        self._epoll.register(self._told.fileno(), select.EPOLLIN)
        self._next_at_s = now_s
        for lane in list(self._by_fd.values()):
            lane.go_on()
            self._look_after(lane)
        if plan.warm_up_s:
            self._until(now_s + plan.warm_up_s)
            self._report(time.perf_counter() - now_s, is_warm_up=True)
        now_s = time.perf_counter()
        end_s = now_s + plan.duration_s
        while not self._is_stopped and self._by_fd and now_s < end_s:
            began_s = now_s
            self._until(min(end_s, began_s + plan.interval_s))
            now_s = time.perf_counter()
            if self._is_stopped or not self._by_fd or now_s >= end_s:
                seconds = self._drain() - began_s
                if self.plan.is_stamped:
                    self._until_received()
                self._report(seconds, is_last=True)
                return
            self._report(now_s - began_s)
        self._report(0.0, is_last=True)

    def _until(self, end_s: float) -> None:
        """Works until ``end_s``, or until the input ends or no connection is left."""
        renew_at_s = time.perf_counter() + _RENEWED_EVERY_S
        while (now_s := time.perf_counter()) < end_s and self._by_fd and not self._is_stopped:
            if now_s >= renew_at_s:
                renew_at_s = now_s + _RENEWED_EVERY_S
                for sender in self._senders:
                    sender.prepare()
            wait_s = min(end_s - now_s, _WAIT_MAX_S)
            if self.plan.rate and self._senders:
                wait_s = min(wait_s, max(0.0, self._next_at_s - now_s))
            self._poll(wait_s, goes_on=True)
            if self.plan.rate and not self._is_stopped:
                self._send_due()

    def _poll(self, wait_s: float, *, goes_on: bool) -> None:
        """Handles connections that are ready, and the end of the input. Without ``goes_on`` nothing more is sent."""
        for fd, events in self._epoll.poll(wait_s):
            lane = self._by_fd.get(fd)
            if fd == self._told.fileno():
                self._is_stopped, goes_on = True, False
                self._epoll.unregister(fd)  # its end would be told again at once
            if lane is None:
                continue
            if events & select.EPOLLOUT:
                lane.send_rest()
            if events & ~select.EPOLLOUT and lane.is_alive:
                lane.receive()
            if lane.is_alive and (goes_on or isinstance(lane, PullLane)):
                lane.go_on()
            if lane.unsent or events & select.EPOLLOUT or not lane.is_alive:
                self._look_after(lane)

    def _look_after(self, lane: Lane) -> None:
        """Watches for room to send, if a lane has unsent data. Drops a lane whose socket is closed."""
        if lane.is_alive:
            self._epoll.modify(lane.fd, select.EPOLLIN | (select.EPOLLOUT if lane.unsent else 0))
            return
        self._by_fd.pop(lane.fd, None)
        if isinstance(lane, SendLane) and lane in self._senders:
            self._senders.remove(lane)

    def _send_due(self) -> None:
        """Sends what is due by the rate, on lanes with room. If a message must wait for room, its latency counts from
        when it was due, so that a stalled broker does not hide it."""
        step_s = self.plan.batch_size / self.plan.rate
        now_s = time.perf_counter()
        while self._next_at_s <= now_s and self._senders:
            for _ in range(len(self._senders)):
                self._senders.rotate(-1)
                if self._senders[0].in_flight < self.plan.in_flight:
                    break
            else:
                return
            lane = self._senders[0]
            lane.send(lane.fill(1, int((self._next_at_s - self._started_s) * 1e6)), 1, self._next_at_s)
            if lane.unsent or not lane.is_alive:
                self._look_after(lane)
            self._next_at_s += step_s

    def _drain(self) -> float:
        """Waits for outstanding answers, so that every stored message is counted. Returns when the last one came, so
        that no rate is averaged over the wait."""
        began_s = answered_s = time.perf_counter()
        left = self._in_flight()
        while left and time.perf_counter() < began_s + (_STOPPED_WAIT_S if self._is_stopped else self.plan.timeout_s):
            self._poll(_WAIT_MAX_S, goes_on=False)
            before, left = left, self._in_flight()
            answered_s = time.perf_counter() if left < before else answered_s
        if self._is_stopped:
            self._unanswered = left * self.plan.batch_size
        elif left:
            self._tally.error(f"no answer in {self.plan.timeout_s:g} s", left)
        self._senders.clear()
        return answered_s

    def _in_flight(self) -> int:
        return sum(lane.in_flight for lane in self._senders)

    def _until_received(self) -> None:
        """Waits for the last stamped messages, which are on their way to waiting pulls."""
        quiet_at_s, received = time.perf_counter() + _QUIET_S, self._tally.received
        while self._by_fd and time.perf_counter() < quiet_at_s:
            self._poll(_WAIT_MAX_S, goes_on=False)
            if self._tally.received != received:
                received, quiet_at_s = self._tally.received, time.perf_counter() + _QUIET_S

    def _report(self, seconds: float, *, is_warm_up: bool = False, is_last: bool = False) -> None:
        plan, tally = self.plan, self._tally.taken()
        sent = tally.good * plan.batch_size
        is_pulling = not plan.is_stamped  # otherwise sent messages are counted
        tell(self._telling, IntervalReport(
            seconds, sent + tally.pulled * is_pulling, sent * plan.size_bytes + tally.pulled_bytes * is_pulling,
            tally.received, tally.errors, tally.answers.counts, tally.deliveries.counts, is_warm_up, is_last,
            self._unanswered,
        ))  # fmt: skip


def tell(out: BinaryIO, report: Report) -> None:
    out.write(msgspec.json.encode(report) + b"\n")
    out.flush()


def main() -> None:
    told, telling = sys.stdin.buffer, sys.stdout.buffer
    plan = msgspec.json.decode(told.readline(), type=LoadPlan)
    worker = Worker(plan, told, telling)
    try:
        worker.connect()
    except (OSError, RocketMQError) as error:
        tell(telling, ReadyReport(getattr(error, "strerror", None) or str(error)))
        return
    tell(telling, ReadyReport())
    if told.readline():
        with suppress(BrokenPipeError):  # the process that asked for it is gone
            worker.run()


if __name__ == "__main__":
    main()
