"""What a stream sees of real brokers that come, go and restart."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, RequestTimeoutError
from rmqreplay.source.queue_ranges import DataLossError
from spark_tools.partitions import cluster_of
from spark_tools.source_options import parse_stream_options
from spark_tools.streaming.limits import TriggerLimits, batch_ends
from spark_tools.streaming.survey import QueueSurvey
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server, topic_config, until

TOPIC = "Seen"


def resize(admin: AdminClient, broker: Server, topic: str, queues: int) -> None:
    admin.create_topic(broker.broker_addr, topic_config(topic, queues))


def send(admin: AdminClient, broker: Server, queue: MessageQueue, body: bytes) -> None:
    admin.send_message(broker.broker_addr, queue, Message(queue.topic, body))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def survey(stack: ExitStack, name_server: str, topic: str, **options: str) -> QueueSurvey:
    read = parse_stream_options({"nameServer": name_server, "subscribe": topic, **options}).read
    return QueueSurvey(stack.enter_context(cluster_of(read)), read)


def test_queues_come_in_and_are_kept_when_the_topic_shrinks(server: Server, fresh: Fresh, stack: ExitStack) -> None:
    topic = fresh("Resized")
    with AdminClient(server.namesrv_addr) as admin:
        resize(admin, server, topic, 4)
        until(lambda: topic in admin.topic_list())
        looking = survey(stack, server.namesrv_addr, topic)
        assert looking.starting() == dict.fromkeys((MessageQueue(topic, "broker-a", at) for at in range(4)), 0)
        resize(admin, server, topic, 8)
        last = MessageQueue(topic, "broker-a", 7)
        send(admin, server, last, b"x" * 100)
        until(lambda: looking.look({}).bounds.get(last) == (0, 1))
        assert looking.sizes(last, 0, 5)[0] > 100
        resize(admin, server, topic, 4)
        until(lambda: admin.topic_route(topic).queue_datas[0].read_queue_nums == 4)
        assert looking.look({last: 0}).bounds[last] == (0, 1)


def test_a_topic_that_nobody_knows_is_an_error_although_others_were_read(
    server: Server, admin: AdminClient, fresh: Fresh, stack: ExitStack
) -> None:
    topic = fresh("Known")
    resize(admin, server, topic, 1)
    until(lambda: topic in admin.topic_list())
    read = {MessageQueue(topic, "broker-a", 0): 0, MessageQueue("ReadBefore", "broker-a", 0): 5}
    with pytest.raises(NotFoundError) as told:
        survey(stack, server.namesrv_addr, f"{topic},ReadBefore,{topic}x").look(read)
    assert str(told.value) == f"there is no topic {topic}x"
    assert told.value.hint == f"did you mean {topic}?"
    seen = survey(stack, server.namesrv_addr, f"{topic},{topic}x", failOnDataLoss="false").look(read)
    assert set(seen.bounds) == {MessageQueue(topic, "broker-a", 0)}
    assert survey(stack, server.namesrv_addr, f"{topic},ReadBefore").look(read).gone == list(read)[1:]
    unsaid = survey(stack, server.namesrv_addr, f"{topic},{topic}x")
    assert set(unsaid.look(None).bounds) == {MessageQueue(topic, "broker-a", 0)}, "its broker may be away"
    with pytest.raises(NotFoundError):
        unsaid.look({})


def test_a_broker_that_is_away_is_not_lost_and_one_that_comes_is_seen(tmp_path: Path, stack: ExitStack) -> None:
    namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
    admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
    ports = free_ports()
    running: dict[str, Server] = {}
    stack.callback(lambda: [each.stop() for each in running.values()])

    def start(name: str, port: int) -> None:
        running[name] = servers.broker(tmp_path / name, namesrv.namesrv_addr, name, "--port", str(port))
        resize(admin, running[name], TOPIC, 1)
        until(lambda: any(each.broker_name == name for each in admin.topic_route(TOPIC).queue_datas))

    a, b = MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-b", 0)
    start("broker-a", ports[0])
    send(admin, running["broker-a"], a, b"1")
    strict = survey(stack, namesrv.namesrv_addr, TOPIC, readTimeoutMs="200")
    lenient = survey(stack, namesrv.namesrv_addr, TOPIC, readTimeoutMs="200", failOnDataLoss="false")
    assert strict.look({}).bounds == lenient.look({}).bounds == {a: (0, 1)}
    start("broker-b", ports[1])
    send(admin, running["broker-b"], b, b"1")
    assert strict.look({a: 1}).bounds == lenient.look({a: 1}).bounds == {a: (0, 1), b: (0, 1)}
    running["broker-b"].stop()
    until(lambda: all(each.broker_name != "broker-b" for each in admin.topic_route(TOPIC).queue_datas))
    with pytest.raises(DataLossError, match=r"not all brokers answer \(broker-b: "):
        strict.look({a: 1, b: 1})
    for _ in range(2):
        seen = lenient.look({a: 1, b: 1})
        assert (seen.bounds, seen.gone) == ({a: (0, 1)}, [])
    start("broker-b", ports[1])
    assert strict.look({a: 1, b: 1}).bounds == lenient.look({a: 1, b: 1}).bounds == {a: (0, 1), b: (0, 1)}
    with pytest.raises(DataLossError, match="Seen/broker-b/0 ends at 1, and 9 was read"):
        strict.look({b: 9})


@pytest.fixture
def queue(server: Server, admin: AdminClient, fresh: Fresh) -> MessageQueue:
    """The only one of its topic."""
    topic = fresh("Seen")
    resize(admin, server, topic, 1)
    until(lambda: topic in admin.topic_list())
    return MessageQueue(topic, "broker-a", 0)


def test_a_broker_that_does_not_answer_is_asked_for_one_topic(
    server: Server, admin: AdminClient, fresh: Fresh, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen one takes the whole time limit for each of them."""
    topics = [fresh("Frozen") for _ in range(4)]
    for topic in topics:
        resize(admin, server, topic, 1)
    until(lambda: set(topics) <= set(admin.topic_list()))
    looking = survey(stack, server.namesrv_addr, ",".join(topics), readTimeoutMs="1")
    asked = list[str]()

    def silent(_: AdminClient, address: str, topic: str, count: int) -> list[int]:
        asked.append(topic)
        raise RequestTimeoutError(f"{address} did not answer")

    monkeypatch.setattr(AdminClient, "queues_past", silent)
    with pytest.raises(DataLossError, match=r"not all brokers answer \(broker-a: "):
        looking.look({})
    assert len(asked) <= 2, "one for each look"


def test_a_broker_that_does_not_answer_is_asked_once_what_was_made_anew(
    server: Server, admin: AdminClient, fresh: Fresh, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fresh("Frozen")
    resize(admin, server, topic, 4)
    until(lambda: topic in admin.topic_list())
    asked = list[int]()

    def silent(_: AdminClient, address: str, topic: str, queue_id: int) -> int:
        asked.append(queue_id)
        raise RequestTimeoutError(f"{address} did not answer")

    monkeypatch.setattr(AdminClient, "min_offset", silent)
    queues = [MessageQueue(topic, "broker-a", at) for at in range(4)]
    marks = dict.fromkeys(queues, (0, 1))
    assert survey(stack, server.namesrv_addr, topic).made_anew(queues, marks) == []
    assert asked == [0]


def test_a_queue_is_gone_when_its_broker_says_so(
    server: Server, admin: AdminClient, queue: MessageQueue, stack: ExitStack
) -> None:
    looking = survey(stack, server.namesrv_addr, queue.topic)
    assert looking.look({queue: 0}).gone == []
    send(admin, server, queue, b"1")
    until(lambda: looking.look({queue: 1}).bounds == {queue: (0, 1)})
    admin.delete_topic_in_broker(server.broker_addr, queue.topic)
    assert looking.look({queue: 1}).gone == [queue], "the name server may still name it"
    admin.delete_topic_in_namesrv(server.namesrv_addr, queue.topic)
    assert looking.look({queue: 1}).gone == [queue]


def test_a_queue_that_was_made_anew_is_not_waited_for(
    server: Server, admin: AdminClient, queue: MessageQueue, stack: ExitStack
) -> None:
    """Although it ends before the place it was read to. A replica that has yet to catch up has the first message."""
    send(admin, server, queue, b"1")
    looking = survey(stack, server.namesrv_addr, queue.topic, readTimeoutMs="200")
    stored_ms = looking.first_stored_ms(queue)
    assert stored_ms is not None
    with pytest.raises(DataLossError, match=r"/broker-a/0 ends at 1, and 9 was read"):
        looking.look({queue: 9}, {queue: (0, stored_ms)})
    patient = survey(stack, server.namesrv_addr, queue.topic)
    assert patient.made_anew([queue], {queue: (0, stored_ms)}) == []
    assert patient.made_anew([queue], {queue: (3, stored_ms - 1)}) == [queue]
    assert patient.look({queue: 9}, {queue: (3, stored_ms - 1)}).bounds == {queue: (0, 1)}


def test_bytes_are_those_of_the_stored_records(
    server: Server, admin: AdminClient, queue: MessageQueue, stack: ExitStack
) -> None:
    for number in range(10):
        send(admin, server, queue, b"x" * 100 * (number + 1))
    looking = survey(stack, server.namesrv_addr, queue.topic)
    sizes = looking.sizes(queue, 0, 10)
    assert [size - sizes[0] for size in sizes] == [100 * number for number in range(10)]
    ends = batch_ends({queue: (0, 10)}, TriggerLimits(bytes_max=sum(sizes[:6])), looking.sizes)
    assert ends == {queue: 6}
