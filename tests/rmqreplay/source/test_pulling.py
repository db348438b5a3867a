"""A read goes on over what happens to brokers in its middle."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, RocketMQError
from rmqproto.headers.base import Header, to_ext
from rmqproto.headers.consuming import PullAnswer
from rmqproto.message.record import decode_records_untrusted, encode_record
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import PAUSE_MAX_S, PullRules, persist, pull_range
from rmqreplay.source.queue_ranges import DataLossError
from tests.rmqclient.fake_broker import QUEUE, record
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, set_under
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server, topic_config, until

COUNT = 60
RULES = PullRules(batch_size=10, timeout_s=5.0)
Act = Callable[[], object]


class Watched(LiveCluster):
    """Tells when a read has met a broker that is away."""

    def __init__(self, name_server: str):
        super().__init__(name_server)
        self.met = threading.Event()

    def forget_route(self, topic: str) -> None:
        super().forget_route(topic)
        self.met.set()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def read_over(cluster: Watched, wanted: OffsetRange, break_it: Act, mend: Act) -> None:
    """Reads the range, of which the first pull is answered before ``break_it`` and the next is tried before ``mend``;
    every message must come once."""
    pulls = pull_range(cluster, wanted, RULES)
    first = next(pulls)
    break_it()
    with ThreadPoolExecutor(1) as threads:
        rest = threads.submit(list, pulls)
        assert cluster.met.wait(60)
        mend()
        bodies = [first, *rest.result(timeout=100)]
    found = [record.body for body in bodies for record in decode_records_untrusted(body)]
    assert found[: wanted.count] == [b"%d" % number for number in range(wanted.count)]


def fill(admin: AdminClient, address: str, queue: MessageQueue) -> OffsetRange:
    admin.create_topic(address, topic_config(queue.topic))
    for number in range(COUNT):
        admin.send_message(address, queue, Message(queue.topic, b"%d" % number))
    until(lambda: queue.topic in admin.topic_list())
    return OffsetRange(queue, 0, COUNT)


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path, stack: ExitStack) -> None:
    """While it was away the name server had forgotten its topics: they were not gone."""
    namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
    admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
    cluster = stack.enter_context(Watched(namesrv.namesrv_addr))
    port, running = str(free_ports()[1]), list[Server]()

    def start() -> None:
        running.append(servers.broker(tmp_path / "broker", namesrv.namesrv_addr, "broker-a", "--port", port))

    start()
    stack.callback(lambda: running[-1].stop())
    wanted = fill(admin, running[0].broker_addr, MessageQueue("Kept", "broker-a", 0))

    def break_it() -> None:
        running[0].stop()
        until(lambda: "Kept" not in admin.topic_list())

    read_over(cluster, wanted, break_it, start)


@pytest.mark.slow
def test_a_read_goes_on_at_the_new_master(tmp_path: Path, stack: ExitStack) -> None:
    controller = stack.enter_context(servers.controller(tmp_path / "controller"))
    made = stack.enter_context(set_under(tmp_path, controller.controller_addr))
    made.join(1, 2, **PATIENT)
    wanted = fill(made.admin, made.brokers[1].broker_addr, MessageQueue("Kept", BROKER_NAME, 0))
    until(lambda: "Kept" in made.admin.all_topics(made.brokers[2].broker_addr).topic_config_table)
    until(lambda: len(made.bodies(2)) == COUNT)
    cluster = stack.enter_context(Watched(made.namesrv.namesrv_addr))
    read_over(cluster, wanted, lambda: made.brokers[1].stop(signal.SIGKILL), lambda: None)


def test_a_topic_that_is_gone_ends_the_read_at_once(server: Server, fresh: Fresh) -> None:
    queue = MessageQueue(fresh("GoneTopic"), "broker-a", 0)
    with AdminClient(server.namesrv_addr) as admin, LiveCluster(server.namesrv_addr) as cluster:
        wanted = fill(admin, server.broker_addr, queue)
        strict, lenient, gaps = pull_range(cluster, wanted, RULES), PullRules(fail_on_data_loss=False), []
        next(strict)
        admin.delete_topic_in_broker(server.broker_addr, queue.topic)
        admin.delete_topic_in_namesrv(server.namesrv_addr, queue.topic)
        with pytest.raises(DataLossError, match=f"{queue.topic}/broker-a/0: the topic is gone"):
            list(strict)
        cluster.forget_route(queue.topic)
        assert list(pull_range(cluster, wanted, lenient, gaps.append)) == []
        assert gaps == [wanted]


def test_a_topic_that_is_closed_amid_a_read_says_what_reading_needs(server: Server, fresh: Fresh) -> None:
    queue = MessageQueue(fresh("ClosedTopic"), "broker-a", 0)
    with AdminClient(server.namesrv_addr) as admin, LiveCluster(server.namesrv_addr) as cluster:
        pulls = pull_range(cluster, fill(admin, server.broker_addr, queue), RULES)
        next(pulls)
        admin.create_topic(server.broker_addr, topic_config(queue.topic, perm=2))
        with pytest.raises(RefusedError, match=f"topic.{queue.topic}. pulling message is forbidden") as told:
            list(pulls)
    assert f"needs a topic {queue.topic} whose permissions have R" in str(told.value.hint)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s


def raising(*errors: RocketMQError) -> Callable[[], str]:
    left = list(errors)

    def ask() -> str:
        if left:
            raise left.pop(0)
        return "answered"

    return ask


def test_pauses_grow_to_a_limit_and_end_in_time() -> None:
    clock, forgotten = Clock(), []

    def tried(timeout_s: float, *errors: RocketMQError) -> str:
        ask, forget = raising(*errors), lambda: forgotten.append(clock.now_s)
        return persist(ask, forget, timeout_s, now_s=lambda: clock.now_s, sleep=clock.sleep)

    busy = RefusedError(ResponseCode.SYSTEM_BUSY, "later")
    assert tried(9.0, ConnectError("away"), NotFoundError("no master"), busy) == "answered"
    assert clock.pauses == [0.1, 0.2, 0.4]
    assert len(forgotten) == 3
    with pytest.raises(ConnectError):
        tried(60.0, *[ConnectError("away")] * 1000)
    assert max(clock.pauses) == PAUSE_MAX_S
    assert 60.0 <= clock.now_s - sum(clock.pauses[:3]) < 60.1, "the last try comes when the time is over"
    with pytest.raises(RefusedError, match="not for you"):
        tried(60.0, RefusedError(ResponseCode.NO_PERMISSION, "not for you"))


def test_a_queue_that_ends_too_early_is_waited_for(server: Server, fresh: Fresh) -> None:
    """As of a replica that has yet to catch up. If it does not, part of the range is lost."""
    queue = MessageQueue(fresh("ShortTopic"), "broker-a", 0)
    with AdminClient(server.namesrv_addr) as admin, Watched(server.namesrv_addr) as cluster:
        fill(admin, server.broker_addr, queue)
        late = OffsetRange(queue, COUNT - 10, COUNT + 1)
        pulls = pull_range(cluster, late, RULES)
        next(pulls)
        with ThreadPoolExecutor(1) as threads:
            rest = threads.submit(list, pulls)
            assert cluster.met.wait(60)
            admin.send_message(server.broker_addr, queue, Message(queue.topic, b"late"))
            (body,) = rest.result(timeout=100)
        assert [record.body for record in decode_records_untrusted(body)] == [b"late"]
        short, gaps = PullRules(read_timeout_s=0.2, fail_on_data_loss=False), list[OffsetRange]()
        beyond = OffsetRange(queue, COUNT + 1, COUNT + 5)
        with pytest.raises(DataLossError, match=f"the queue ends at {COUNT + 1}, and {COUNT + 5} was asked for"):
            list(pull_range(cluster, beyond, PullRules(read_timeout_s=0.2)))
        assert list(pull_range(cluster, beyond, short, gaps.append)) == []
        assert gaps == [beyond]


class Scripted:
    """A broker whose oldest messages are gone. Until it has corrected its queue, it passes over them in its answers."""

    def __init__(self, *answers: Command, policy: str = "DELETE"):
        self.connections: Any = self
        self._answers = list(answers)
        self._config = TopicConfig(topic_name=QUEUE.topic, attributes={"cleanup.policy": policy})

    def pulling_address(self, queue: MessageQueue) -> str:
        return "broker-a"

    def forget_route(self, topic: str) -> None:
        pytest.fail("it has answered")

    def request(self, address: str, code: RequestCode, header: Header, **_: object) -> Command:
        if code == RequestCode.GET_TOPIC_CONFIG:
            return Command(code=0, body=fastjson.dumps(self._config))
        return self._answers.pop(0)


def pulled(code: ResponseCode, next_offset: int, *offsets: int, min_offset: int = 0) -> Command:
    ends = PullAnswer(suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=min_offset, max_offset=9)
    return Command(code=code, ext=to_ext(ends), body=b"".join(encode_record(record(each, b"x")) for each in offsets))


@pytest.mark.parametrize(
    ("answers", "gone"),
    [
        ([pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, 5), pulled(ResponseCode.SUCCESS, 8, 5, 6, 7)], (0, 5)),
        ([pulled(ResponseCode.SUCCESS, 8, 3, 4, 5, 6, 7)], (0, 3)),
        ([pulled(ResponseCode.SUCCESS, 2, 0, 1), pulled(ResponseCode.SUCCESS, 9, 8)], (2, 7)),
        ([pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, 0, min_offset=5), pulled(ResponseCode.SUCCESS, 7, 5, 6)], (0, 5)),
    ],
)
def test_what_a_broker_passes_over_is_lost(answers: list[Command], gone: tuple[int, int]) -> None:
    """It is none of a filter's, and none of a topic that keeps the last message of each key."""
    wanted, lenient, gaps = OffsetRange(QUEUE, 0, 7), PullRules(fail_on_data_loss=False), list[OffsetRange]()
    with pytest.raises(DataLossError, match=f"T/broker-a/0: offset {gone[0]} is gone"):
        list(pull_range(Scripted(*answers), wanted, RULES))
    found = list(pull_range(Scripted(*answers), wanted, lenient, gaps.append))
    assert found == [each.body for each in answers if each.body]
    assert gaps == [OffsetRange(QUEUE, *gone)]
    if answers[0].ext["minOffset"] == "0":
        list(pull_range(Scripted(*answers), wanted, PullRules(expression="a")))
        list(pull_range(Scripted(*answers, policy="COMPACTION"), wanted, RULES))
