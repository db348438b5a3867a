"""Several requests under way at once, against a scripted peer."""

import itertools
import socket
import struct
import threading
import time
from types import SimpleNamespace

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RESPONSE_FLAG, RequestCode
from rmqproto.headers.consuming import QueueHeader
from rmqproto.wire.command import Command, FrameReader, encode_frame
from rmqreplay.sending.delivery import Answer, Batch, DeliveryError, Outgoing
from rmqreplay.sending.pipeline import Answered, Pipeline, wait_for_answers
from rmqreplay.sending.sender import BatchSender, judge, round_robin, send_request, unless_refused

HEADER = QueueHeader(topic="T", queue_id=0)
FAR = float("inf")


class Peer:
    """Accepts one connection. The test reads the bytes that arrive and writes its own."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.reader = FrameReader()

    def accept(self) -> None:
        self.connection, _ = self.listener.accept()

    def commands(self, count: int) -> list[Command]:
        found: list[Command] = []
        while len(found) < count:
            found += self.reader.feed(self.connection.recv(65536))
        return found

    def answer(self, request: Command, code: int = 0) -> None:
        self.connection.sendall(encode_frame(Command(code=code, opaque=request.opaque, flag=RESPONSE_FLAG)))


@pytest.fixture
def peer():
    found = Peer()
    yield found
    found.listener.close()
    if hasattr(found, "connection"):
        found.connection.close()


@pytest.fixture
def pipeline(peer):
    """Connected to ``peer``."""
    with Pipeline(peer.address) as made:
        made.connect()
        peer.accept()
        yield made


def ask(pipeline: Pipeline, tag: object, *, not_after: float = FAR, timeout_s: float = 30) -> bool:
    return pipeline.put(tag, RequestCode.GET_MAX_OFFSET, HEADER, b"", not_after=not_after, timeout_s=timeout_s)


def test_answers_find_their_requests_in_any_order(peer, pipeline):
    for tag in "ab":
        assert ask(pipeline, tag)
    first, second = peer.commands(2)
    peer.answer(second)
    assert [each.tag for each in pipeline.answers()] == ["b"]
    peer.answer(first, 17)
    (answered,) = pipeline.answers()
    assert (answered.tag, answered.command.code) == ("a", 17)
    assert pipeline.answers() == []


def test_nothing_goes_out_after_the_permit(peer, pipeline):
    past = time.monotonic()
    assert not ask(pipeline, "a", not_after=past)
    pipeline.close()
    assert peer.connection.recv(1) == b""


def test_a_time_out_puts_everything_under_way_in_doubt_and_throws_away_unsent_bytes(peer, pipeline):
    """A late answer must not reach another request. Bytes that the operating system sent later, after a look at the
    target, made a redrive over a slow line send a letter twice."""
    ask(pipeline, "a", timeout_s=0.01)
    ask(pipeline, "b")
    assert [(each.tag, each.command) for each in pipeline.answers()] == [("a", None), ("b", None)]
    peer.commands(2)
    with pytest.raises(ConnectionResetError):
        peer.connection.recv(1)


def test_an_answer_counts_even_if_the_connection_breaks_at_the_request_behind_it(peer, pipeline):
    for tag in "ab":
        ask(pipeline, tag)
    first, _ = peer.commands(2)
    peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close sends a reset
    answer = Command(code=0, opaque=first.opaque, flag=RESPONSE_FLAG)
    peer.connection.sendall(encode_frame(answer) + encode_frame(Command(code=RequestCode.GET_CONSUMER_RUNNING_INFO)))
    peer.connection.close()
    assert [(each.tag, each.command.code) for each in pipeline.answers()] == [("a", 0)]
    assert [(each.tag, each.command) for each in pipeline.answers()] == [("b", None)]


LONG = bytes(14 << 20)
"""More than the buffers of a connection hold, so that it is only sent while the peer reads."""


@pytest.fixture
def ticks(monkeypatch):
    """A clock for the pipeline that moves on by 10 ms whenever it is read, so that no busy machine ends a permit."""
    count = itertools.count()
    monkeypatch.setattr("rmqreplay.sending.pipeline.time", SimpleNamespace(monotonic=lambda: next(count) / 100))


def test_a_request_that_takes_longer_to_send_than_its_permit_lasts_asks_for_more_time(peer, pipeline, ticks):
    """A letter larger than two seconds of bandwidth was given up again and again, and ended its redrive."""
    arrived: list[Command] = []
    reading = threading.Thread(target=lambda: arrived.extend(peer.commands(1)))

    def extend() -> float:
        reading.start()
        return FAR

    assert pipeline.put("a", RequestCode.SEND_MESSAGE_V2, HEADER, LONG, not_after=0.05, timeout_s=30, extend=extend)
    reading.join()
    peer.answer(arrived[0])
    (answered,) = pipeline.answers()
    assert answered.command is not None
    assert len(arrived[0].body) == len(LONG)


@pytest.mark.parametrize(("permit_s", "timeout_s"), [(0.05, 30.0), (30.0, 0.05)])
def test_what_is_sent_in_part_is_the_last_on_its_connection(peer, pipeline, ticks, permit_s, timeout_s):
    """A permit that is not extended, and a peer that takes no more bytes. After the latter, the next request was sent
    on the same connection, where a broker would have read it as the rest of the first one's body."""
    assert pipeline.put(
        "a", RequestCode.SEND_MESSAGE_V2, HEADER, LONG, not_after=permit_s, timeout_s=timeout_s,
        extend=lambda: permit_s,
    )  # fmt: skip
    assert pipeline.fileno() == -1
    assert [(each.tag, each.command) for each in pipeline.answers()] == [("a", None)]


def test_an_answer_that_came_while_another_request_was_being_sent_counts(peer, pipeline):
    ask(pipeline, "a", timeout_s=0.01)
    peer.answer(peer.commands(1)[0])
    while time.monotonic() < pipeline.next_deadline:
        pass
    assert [(each.tag, each.command.code) for each in pipeline.answers()] == [("a", 0)]


def test_a_broken_connection_is_noticed_among_several(peer):
    other = Peer()
    with Pipeline(peer.address) as one, Pipeline(other.address) as two:
        for pipeline, at in ((one, peer), (two, other)):
            pipeline.connect()
            at.accept()
            ask(pipeline, at)
        other.connection.close()
        (answered,) = wait_for_answers([one, two])
        assert (answered.tag, answered.command) == (other, None)
        threading.Timer(0.0, lambda: peer.answer(peer.commands(1)[0])).start()
        (answered,) = wait_for_answers([one, two])
        assert answered.command is not None
    other.listener.close()


def a_batch(count: int) -> Batch:
    queue = MessageQueue("%DLQ%g", "b", 0)
    return Batch([Outgoing(str(number), queue, number, "T", b"body", "K\x01v\x02", 5) for number in range(count)])


def test_one_message_goes_as_itself_and_several_as_a_batch():
    queue = MessageQueue("T", "b", 1)
    code, header, body = send_request(a_batch(1), queue, "g")
    assert (code, header.batch, header.flag, header.properties, body) == (310, False, 5, "K\x01v\x02", b"body")
    code, header, body = send_request(a_batch(2), queue, "g")
    assert (code, header.batch, header.queue_id) == (320, True, 1)
    assert body.count(b"body") == 2


@pytest.mark.parametrize(
    ("code", "answer"),
    [(0, "stored"), (10, "stored weakly"), (11, "stored weakly"), (12, "stored weakly"), (2, "busy"), (14, "busy"),
     (13, "illegal"), (1, "in doubt"), (999, "in doubt")],
)  # fmt: skip
def test_what_each_code_says_about_a_message(code, answer):
    """10 to 12 mean stored, so sending again would double the message. 1 may come after the append, so only a look at
    the target can tell."""
    assert judge(Answered(a_batch(1), Command(code=code))).answer is Answer(answer)
    assert judge(Answered(a_batch(1), None)).answer is Answer.IN_DOUBT


@pytest.mark.parametrize("code", [16, 17, 26, 29])
def test_a_refusal_that_would_meet_all_messages_ends_the_task(code):
    with pytest.raises(DeliveryError):
        unless_refused([judge(Answered(a_batch(1), Command(code=code)))])


def test_tasks_of_one_batch_go_to_all_queues():
    """All of them went to the first one: a stream's batches are as small."""
    queues = [MessageQueue("T", "b", queue_id) for queue_id in range(4)]
    assert {round_robin(queues)(a_batch(1)) for _ in range(200)} == set(queues)
    choose = round_robin(queues)
    assert sorted(choose(a_batch(1)) for _ in range(8)) == sorted(2 * queues)


def test_a_broker_that_cannot_be_reached_has_surely_stored_nothing(peer):
    peer.listener.close()
    queue = MessageQueue("T", "b", 0)
    sender = BatchSender({"b": peer.address}, round_robin([queue]), producer_group="g", send_timeout_s=1)
    assert sender.put(a_batch(2), FAR, lambda: FAR)
    assert [each.answer for each in sender.outcomes()] == [Answer.BUSY]
