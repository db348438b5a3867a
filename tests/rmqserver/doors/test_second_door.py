"""A second door needs nothing of the remoting: it administers, sends, pulls, pops and acknowledges in values."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, SubscriptionData, SubscriptionGroupConfig
from rmqproto.bodies.popping import AssignmentRequest, RequestMode
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import Header
from rmqproto.headers.consuming import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    ResetOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from rmqproto.headers.popping import AckHeader, NotificationAnswer, NotificationHeader, PopHeader
from rmqproto.headers.sending import COMMIT, EndTransactionHeader, RecallHeader, SendBackHeader, SendHeader
from rmqproto.message import properties as props
from rmqproto.message.record import BatchItem, decode_records_untrusted, encode_batch, host_bytes
from rmqproto.names import dlq_topic
from rmqproto.pop import Handle
from rmqserver.broker.broker import Broker
from rmqserver.broker.consuming.pop.popping import Popped
from rmqserver.broker.consuming.pull import AskedPull, PullOutcome
from rmqserver.broker.sending.pending import STORED, Outcome
from rmqserver.broker.sending.put import SendOutcome
from rmqserver.broker.sending.reply import Replied
from rmqserver.command_line import store_paths
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import OnPeerAnswer, Refused
from rmqserver.remoting.loop import Loop
from tests.support.servers import topic_config

TOPIC, GROUP = "T", "G"


class Caller:
    """A peer of a door that has no frames."""

    def __init__(self) -> None:
        self.address, self.local_addr = "192.0.2.1:5", "127.0.0.1:8081"
        self.born_host, self.local_host = host_bytes("192.0.2.1", 5), host_bytes("127.0.0.1", 8081)
        self.closed, self.is_listening = False, True
        self.told: list[int] = []

    def notify(self, code: int, header: Header, body: bytes = b"") -> None:
        self.told.append(code)

    def ask(self, code: int, header: Header, body: bytes, on_answer: OnPeerAnswer, timeout_s: float) -> None:
        on_answer(None)

    def flush(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.closed = True


class Door:
    def __init__(self, broker: Broker):
        self.broker, self.caller = broker, Caller()

    def send(self, body: bytes, **properties: str) -> SendOutcome:
        done: list[tuple[SendOutcome, Outcome]] = []

        def on_sent(sent: SendOutcome) -> Callable[[Outcome], None]:
            return lambda outcome: done.append((sent, outcome))

        header = SendHeader(
            producer_group="P", topic=TOPIC, queue_id=0, born_timestamp=1, properties=props.joined(properties).decode()
        )
        self.broker.sends.put(header, body, 0, self.caller, on_sent)
        assert not done, "nothing is promised before it is written"
        self.broker.end_round()
        ((sent, outcome),) = done
        assert outcome is STORED
        return sent

    def ask_to_pull(self, queue_offset: int, sys_flag: int, topic: str = TOPIC) -> list[bytes]:
        """What is pulled enters the list, once there is something."""
        told: list[bytes] = []
        header = PullHeader(
            consumer_group=GROUP, topic=topic, queue_id=0, queue_offset=queue_offset, max_msg_nums=32,
            sys_flag=sys_flag | PULL_SUBSCRIPTION, subscription="*", suspend_timeout_millis=60_000,
        )  # fmt: skip

        def then(code: int, pulled: PullOutcome) -> None:
            told.extend(each.body for each in decode_records_untrusted(b"".join(pulled.result.chunks)))

        self.broker.pulls.serve(AskedPull(header, False, self.caller, then, lambda go_on: go_on()))
        return told

    def pull(self, queue_offset: int, topic: str = TOPIC) -> list[bytes]:
        return self.ask_to_pull(queue_offset, 0, topic)

    def ask_to_pop(self, poll_time: int) -> list[tuple[ResponseCode, Popped]]:
        """What is popped enters the list, once there is something, or the time is up."""
        told: list[tuple[ResponseCode, Popped]] = []
        header = PopHeader(
            consumer_group=GROUP, topic=TOPIC, queue_id=0, max_msg_nums=32, invisible_time=60_000, poll_time=poll_time,
            init_mode=0,
        )  # fmt: skip
        self.broker.pops.pop(header, self.caller, lambda *popped: told.append(popped), lambda go_on: go_on())
        self.broker.end_round()
        return told

    def pop(self) -> list[tuple[bytes, AckHeader]]:
        ((_, popped),) = self.ask_to_pop(0)
        taken = []
        for record in decode_records_untrusted(b"".join(popped.chunks)):
            (start,) = popped.starts.values()
            handle = Handle(
                start, popped.pop_time_ms, 60_000, popped.revive_queue_id, "0", self.broker.config.broker_name, 0,
                record.queue_offset,
            )  # fmt: skip
            ack = AckHeader(
                consumer_group=GROUP, topic=TOPIC, queue_id=0, extra_info=str(handle), offset=record.queue_offset
            )
            taken.append((record.body, ack))
        return taken


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    config = BrokerConfig()
    config.record({**store_paths(str(tmp_path)), "flushDiskType": "ASYNC_FLUSH"})
    loop = Loop()
    broker = Broker(config, loop)
    broker.open()
    made = Door(broker)
    broker.topic_admin.put(topic_config(TOPIC), {})
    broker.group_admin.put(SubscriptionGroupConfig(group_name=GROUP))
    yield made
    broker.close()
    loop.close()


def test_what_is_sent_is_pulled_and_committed(door: Door) -> None:
    sent = [door.send(b"%d" % number) for number in range(3)]
    assert [each.appended.queue_offset for each in sent] == [0, 1, 2]
    assert door.pull(1) == [b"1", b"2"]
    commit = UpdateConsumerOffsetHeader(consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=3)
    assert door.broker.committed_offsets.commit(commit)
    assert door.broker.offsets.committed(GROUP, TOPIC, 0) == 3


def test_a_batch_is_stored_as_messages(door: Door) -> None:
    told: list[tuple[SendOutcome, Outcome]] = []
    header = SendHeader(producer_group="P", topic=TOPIC, queue_id=0, born_timestamp=1, batch=True)
    body = encode_batch([BatchItem(0, each, b"") for each in (b"1", b"2")])
    door.broker.sends.put_batch(header, body, door.caller, lambda sent: lambda outcome: told.append((sent, outcome)))
    door.broker.end_round()
    ((sent, outcome),) = told
    assert (outcome, len(sent.batch or [])) == (STORED, 2)
    assert door.pull(0) == [b"1", b"2"]


def test_what_is_popped_is_acknowledged(door: Door) -> None:
    door.send(b"one")
    ((body, ack),) = door.pop()
    assert body == b"one"
    assert door.pop() == [], "it is invisible"
    door.broker.acks.ack(ack, door.caller)
    ack.offset = 7
    with pytest.raises(Refused) as refused:
        door.broker.acks.ack(ack, door.caller)
    assert refused.value.code == ResponseCode.NO_MESSAGE


def test_who_pulls_or_pops_or_asks_waits_for_a_message(door: Door) -> None:
    notified: list[NotificationAnswer] = []
    asked = NotificationHeader(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, poll_time=60_000, born_time=door.broker.clock_ms()
    )
    door.broker.looks.notify(asked, door.caller, notified.append, lambda go_on: go_on())
    told, pulled = door.ask_to_pop(60_000), door.ask_to_pull(0, PULL_SUSPEND)
    assert (told, notified, pulled) == ([], [], [])
    door.send(b"late")
    ((code, popped),) = told
    assert (code, popped.message_count) == (ResponseCode.SUCCESS, 1)
    assert ([each.has_msg for each in notified], pulled) == ([True], [b"late"])


def test_a_group_is_moved_to_where_a_queue_begins(door: Door) -> None:
    door.send(b"one")
    queue = QueueHeader(topic=TOPIC, queue_id=0)
    begin, resets = door.broker.queue_ends.min_offset(queue), door.broker.reset_offset
    header = ResetOffsetHeader(topic=TOPIC, group=GROUP, queue_id=0, offset=begin, timestamp=-1)
    door.broker.offsets.commit(GROUP, TOPIC, 0, 1)
    resets.reset(header, resets.wanted(header)(), "PYTHON")
    query = QueryConsumerOffsetHeader(consumer_group=GROUP, topic=TOPIC, queue_id=0)
    assert door.broker.committed_offsets.query(query) == 0


def test_a_transaction_ends(door: Door) -> None:
    half = door.send(b"half", TRAN_MSG="true", PGROUP="P").appended
    assert door.pull(0) == [], "its producer has not said how it ended"
    ends, told = door.broker.transaction_ends, list[Outcome]()
    header = EndTransactionHeader(
        producer_group="P", tran_state_table_offset=half.queue_offset, commit_log_offset=half.log_offset,
        commit_or_rollback=COMMIT, from_transaction_check=False, msg_id="",
    )  # fmt: skip
    ends.end(header, ends.record(half.log_offset), told.append)
    assert not told, "nothing is promised before it is written"
    door.broker.end_round()
    assert (told, door.pull(0)) == ([STORED], [b"half"])
    header.producer_group = "Q"
    with pytest.raises(Refused, match="The producer group wrong"):
        ends.end(header, ends.record(half.log_offset), told.append)


def test_a_message_is_sent_back(door: Door) -> None:
    sent, send_backs, told = door.send(b"again"), door.broker.send_backs, list[Outcome]()
    header = SendBackHeader(group=GROUP, offset=sent.appended.log_offset, delay_level=-1, origin_topic=TOPIC)
    returned = send_backs.load(header, door.caller)
    assert returned is not None
    send_backs.put(header, returned, 0, door.caller, told.append)
    assert not told, "nothing is promised before it is written"
    door.broker.end_round()
    assert told == [STORED]
    assert door.pull(0, dlq_topic(GROUP)) == [b"again"], "a level below zero is the dead-letter queue's"
    header.offset = 1 << 40
    with pytest.raises(Refused, match="look message by offset failed"):
        send_backs.load(header, door.caller)


def test_a_message_is_recalled(door: Door) -> None:
    door.broker.config.recall_message_enable = True
    in_a_minute = {props.TIMER_DELAY_SEC: "60", props.UNIQUE_KEY: "KEY"}
    handle = door.send(b"later", **in_a_minute).recall_handle
    told: list[tuple[Outcome, str]] = []
    header = RecallHeader(topic=TOPIC, recall_handle=handle or "", producer_group="P")
    door.broker.recalls.recall(header, door.caller, lambda outcome, unique_key: told.append((outcome, unique_key)))
    assert not told, "nothing is promised before it is written"
    door.broker.end_round()
    ((outcome, unique_key),) = told
    assert (outcome.code, unique_key) == (ResponseCode.SUCCESS, "KEY")
    header.topic = "Other"
    with pytest.raises(Refused) as refused:
        door.broker.recalls.recall(header, door.caller, None)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_reply_is_pushed(door: Door) -> None:
    told: list[Replied] = []
    header = SendHeader(
        producer_group="P", topic=TOPIC, queue_id=0, born_timestamp=1, properties="REPLY_TO_CLIENT\x01a\x02"
    )
    door.broker.replies.put(header, b"yes", door.caller, told.append)
    door.broker.end_round()
    assert told[0].remark == "push reply message fail, channel of <a> not found."
    door.broker.clients.register_producer("P", "a", door.caller, "JAVA", 0)
    door.broker.replies.put(header, b"yes", door.caller, told.append)
    door.broker.end_round()
    assert told[1].remark == "push reply message to afail.", "it was asked, and said nothing"


def test_a_refusal_is_a_value(door: Door) -> None:
    door.broker.topic_admin.delete(TOPIC)
    door.broker.config.auto_create_topic_enable = False
    with pytest.raises(Refused) as refused:
        door.send(b"nowhere")
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_members_of_a_group_hear_of_each_other(door: Door) -> None:
    clients, other = door.broker.clients, Caller()
    data = ConsumerData(group_name=GROUP, subscription_data_set=[SubscriptionData(topic=TOPIC)])
    clients.register_consumer(data, "a", door.caller, "JAVA", 0)
    clients.register_consumer(data, "b", other, "GO", 0)
    clients.peer_gone(other)
    assert door.caller.told, "the one that stays is told"
    assert [client.client_id for client in clients.consumers[GROUP].members.values()] == ["a"]


def test_a_queue_is_locked_by_one_client(door: Door) -> None:
    queue = MessageQueue(topic=TOPIC, broker_name="broker-a", queue_id=0)
    assert door.broker.locks.lock(GROUP, "a", [queue]) == [queue]
    assert door.broker.locks.lock(GROUP, "b", [queue]) == []
    door.broker.locks.unlock(GROUP, "a", [queue])
    assert door.broker.locks.lock(GROUP, "b", [queue]) == [queue]


def test_a_group_may_pop_and_is_told_its_queues(door: Door) -> None:
    assigning = door.broker.assigning
    assigning.set_mode(RequestMode(topic=TOPIC, consumer_group=GROUP, mode="POP", pop_share_queue_num=0))
    asked = AssignmentRequest(topic=TOPIC, consumer_group=GROUP, client_id="a", message_model="BROADCASTING")
    (told,) = assigning.assignments(asked, None).message_queue_assignments or ()
    assert (told.mode, told.message_queue) == ("POP", MessageQueue(TOPIC, door.broker.config.broker_name, 0))
