"""Creates, by requests, the state in which Apache's exchanges were recorded: topics, messages, offsets, clients."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rmqproto.bodies.groups import ConsumerData, Heartbeat, ProducerData, SubscriptionData, SubscriptionGroupConfig
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import UpdateConsumerOffsetHeader
from rmqproto.headers.sending import SendHeader
from rmqproto.headers.tables import TopicConfigHeader
from rmqproto.java import java_properties
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import dumps
from tests.support.wire import Wire

BORN_MS = 1_700_000_000_000


def ok(answer: Command) -> Command:
    assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
    return answer


def create_topic(wire: Wire, topic: str, queues: int = 4, attributes: str = "", order: bool = False) -> None:
    header = TopicConfigHeader(
        topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
        attributes=attributes, order=order,
    )  # fmt: skip
    ok(wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header))


def create_group(wire: Wire, group: str) -> None:
    body = dumps(SubscriptionGroupConfig(group_name=group))
    ok(wire.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))


def send(
    wire: Wire, topic: str, queue_id: int, properties: Mapping[str, str] | None = None, body: bytes = b"a message"
) -> str:
    """Sends one message; returns its offset message id."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in (properties or {}).items())
    header = SendHeader(
        producer_group="GoldenProducer", topic=topic, queue_id=queue_id, born_timestamp=BORN_MS, properties=text
    )
    return ok(wire.ask(RequestCode.SEND_MESSAGE, header, body)).ext["msgId"]


def fill(wire: Wire, topic: str, counts: Sequence[int], tag: str = "TagA") -> None:
    """Sends this many messages to each queue."""
    for queue_id, count in enumerate(counts):
        for _ in range(count):
            send(wire, topic, queue_id, {"TAGS": tag})


def commit(wire: Wire, group: str, topic: str, queue_offsets: Sequence[int]) -> None:
    for queue_id, queue_offset in enumerate(queue_offsets):
        header = UpdateConsumerOffsetHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=queue_offset
        )
        ok(wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header))


def subscription(topic: str, tags: Sequence[str] = ()) -> SubscriptionData:
    return SubscriptionData(
        topic=topic, sub_string=" || ".join(tags) or "*", sub_version=BORN_MS, tags_set=list(tags),
        code_set=[{"TagA": 2598919, "TagB": 2598920}[tag] for tag in tags],
    )  # fmt: skip


def consume(wire: Wire, group: str, *subscriptions: SubscriptionData, client_id: str = "") -> None:
    """Puts a client of the group online, with the id that most of Apache's recordings have."""
    data = ConsumerData(
        group_name=group,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=[*subscriptions, subscription(f"%RETRY%{group}")],
    )
    heartbeat = Heartbeat(client_id=client_id or f"127.0.0.1@{group}", consumer_data_set=[data])
    ok(wire.ask(RequestCode.HEART_BEAT, body=dumps(heartbeat)))


def produce(wire: Wire, group: str) -> None:
    heartbeat = Heartbeat(client_id=f"127.0.0.1@{group}", producer_data_set=[ProducerData(group_name=group)])
    ok(wire.ask(RequestCode.HEART_BEAT, body=dumps(heartbeat)))


def configure(wire: Wire, **settings: str) -> None:
    body = "".join(f"{key}={value}\n" for key, value in settings.items()).encode()
    ok(wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body))


@contextmanager
def configured(wire: Wire, **settings: str) -> Iterator[None]:
    """Sets these settings, and at the end what they were before."""
    before = java_properties.parse_untrusted(ok(wire.ask(RequestCode.GET_BROKER_CONFIG)).body)
    configure(wire, **settings)
    try:
        yield
    finally:
        configure(wire, **{key: before[key] for key in settings})
