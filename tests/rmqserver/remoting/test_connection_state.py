"""A connection's state over any sequence of events: what epoll waits for, and that every request is answered."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.codes import RequestCode
from rmqproto.headers.consuming import ConsumerGroupHeader
from rmqproto.wire.command import Command, FrameReader, encode_frame
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import QUEUED_MAX_BYTES, Connection
from rmqserver.remoting.connection_state import CHANGES, NOTHING, Event, State, mask
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service

PLAIN, LARGE, TIRING = (
    RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.GET_CONSUME_STATS, RequestCode.HEART_BEAT,
)  # fmt: skip
SERVED_MAX = 1000
"""More calls of ``serve`` in one turn would be a loop that goes round for nothing."""


@given(st.lists(st.sampled_from(Event)))
def test_no_order_of_events_wakes_who_rests_or_reads_from_who_does_not_read(events: list[Event]) -> None:
    state, rests, is_unread = State.READING, False, False
    for event in events:
        if event not in CHANGES[state]:
            continue
        state = CHANGES[state][event]
        rests = event is Event.REST or (rests and event is not Event.REST_ENDED)
        is_unread = event is Event.BLOCKED or (is_unread and event is not Event.DRAINED)
        waits_for = select.EPOLLOUT if is_unread else NOTHING if rests else select.EPOLLIN
        assert mask(state, is_paused=False) == waits_for
        assert mask(state, is_paused=True) == (select.EPOLLOUT if is_unread else NOTHING)


@pytest.mark.parametrize("state", State)
def test_each_state_has_an_end(state: State) -> None:
    """Each is left again by events of the loop alone: the peer reads, the rest ends, the next turn comes."""
    for event in (Event.DRAINED, Event.REST_ENDED, Event.GO_ON):
        state = CHANGES[state].get(event, state)
    assert state in (State.READING, State.CLOSED)
    assert set(CHANGES[State.CLOSED].values()) == {State.CLOSED}


class Tiring(Service):
    """Answers with little, with more than one turn has room for, or with little and a rest."""

    def __init__(self) -> None:
        super().__init__("tiring", {PLAIN: self.answer, LARGE: self.answer, TIRING: self.answer})
        self.handled: list[int] = []

    def answer(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        assert connection.state in (State.READING, State.UNREAD), "frames are held"
        self.handled.append(request.opaque)
        if request.code == TIRING:
            connection.rest()
        return success(request, None, bytes(QUEUED_MAX_BYTES + 1 if request.code == LARGE else 10))


class Pair:
    """A peer and its connection in a real loop, which takes its turns when the test says so."""

    def __init__(self, loop: Loop, listener: socket.socket):
        self.loop, self.service = loop, Tiring()
        self.peer = socket.create_connection(listener.getsockname())
        self.peer.setblocking(False)
        accepted, _ = listener.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self.connection = loop.adopt(accepted, self.service)
        loop._services.append(self.service)
        self.asked = 0
        self.reader, self.answered = FrameReader(), list[int]()

    def ask(self, code: int) -> None:
        self.asked += 1
        self.peer.send(encode_frame(Command(code=code, opaque=self.asked, ext={"consumerGroup": "g"})))

    def read(self) -> None:
        try:
            while data := self.peer.recv(1 << 20):
                self.answered += [answer.opaque for answer in self.reader.feed(data)]
        except BlockingIOError:
            pass

    def turn(self) -> None:
        rested, handled = self.connection.state in (State.RESTING, State.UNREAD_RESTING), len(self.service.handled)
        served = 0
        serve = Connection.serve

        def counted(connection: Connection, is_writable: bool, buffer: memoryview) -> None:
            nonlocal served
            served += 1
            assert served < SERVED_MAX, f"the loop goes round for nothing in {connection.state}"
            serve(connection, is_writable, buffer)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "serve", counted)
            self.loop._turn(time.monotonic() + 60)
        assert not rested or len(self.service.handled) == handled, "nothing is handled in a rest"

    def end_rests(self) -> None:
        rested, self.loop._resting = self.loop._resting, []
        for connection in rested:
            connection.end_rest()

    def go_on(self) -> None:
        self.turn()
        self.read()
        self.end_rests()


@contextmanager
def pair() -> Iterator[Pair]:
    loop = Loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Pair(loop, listener)
        with made.peer:
            yield made
    loop.close()


STEPS = st.sampled_from(["plain", "large", "tiring", "read", "turn", "end rests"])


@given(st.lists(STEPS, max_size=30))
def test_every_request_is_answered_in_order_whatever_comes_between(steps: list[str]) -> None:
    """A connection that rested was read again once its peer had read its answer: the loop went round for nothing."""
    with pair() as made:
        do = {
            "plain": lambda: made.ask(PLAIN), "large": lambda: made.ask(LARGE), "tiring": lambda: made.ask(TIRING),
            "read": made.read, "turn": made.turn, "end rests": made.end_rests,
        }  # fmt: skip
        for step in steps:
            do[step]()
        while len(made.answered) < made.asked:
            made.go_on()
        assert made.answered == made.service.handled == list(range(1, made.asked + 1))
        made.go_on()
        made.go_on()
        assert made.connection.state is State.READING


@pytest.mark.parametrize("step", ["plain", "large", "tiring"])
def test_a_peer_that_goes_in_any_state_is_closed(step: str) -> None:
    with pair() as made:
        made.ask({"plain": PLAIN, "large": LARGE, "tiring": TIRING}[step])
        made.ask(PLAIN)
        made.turn()
        made.peer.close()
        while not made.connection.closed:
            made.turn()
            made.end_rests()
        assert made.loop.connections == []
        made.connection.rest()
        assert made.connection.closed, "what comes later does not open it again"
