"""One broker that hangs or is dead does not hide the others' answers: they are shown, the broker is named, and the exit
status says that the answer is partial. These commands used to show nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmqadmin.commands.group.progress import GroupFindings, GroupsProgress
from rmqadmin.core.contexts.context import ASKED_AT_ONCE_DEFAULT
from rmqadmin.core.groups.consumption import GroupClients, GroupOffsets
from rmqadmin.core.servers.broker_answers import Answers
from rmqclient.admin import AdminClient
from rmqclient.blocking import BlockingClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import RegisterBrokerBody, TopicConfig, TopicConfigs
from rmqproto.bodies.statistics import ConsumeOffset
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, RequestTimeoutError
from rmqproto.headers.nameserver import RegisterBrokerHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import UniqueIds, offset_id
from rmqproto.names import dlq_topic
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support import servers
from tests.support.servers import Server, topic_config, until
from tests.support.wire import Wire

TOPIC, GROUP, DEAD = "orders", "billing", "127.0.0.1:1"
BLOCKING_REQUEST = BlockingClient.request


class Cluster(NamedTuple):
    """broker-a answers. Nobody listens at the address of broker-z."""

    namesrv_addr: str
    a: Server
    admin: AdminClient


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("silent")
    with (
        servers.namesrv(folder / "namesrv") as namesrv,
        servers.broker(folder / "a", namesrv.namesrv_addr, "broker-a") as a,
        AdminClient(namesrv.namesrv_addr) as admin,
    ):
        admin.create_topic(a.broker_addr, topic_config(TOPIC, 2))
        admin.create_group(a.broker_addr, SubscriptionGroupConfig(group_name=GROUP))
        admin.update_consumer_offset(a.broker_addr, GROUP, TOPIC, 0, 0)
        yield Cluster(namesrv.namesrv_addr, a, admin)


@pytest.fixture
def dead(cluster: Cluster, run: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv_addr)
    header = RegisterBrokerHeader(
        broker_name="broker-z", broker_addr=DEAD, cluster_name=CLUSTER, ha_server_addr="", broker_id=0
    )
    # A broker that registers for the first time has more than one topic.
    table = {name: topic_config(name, 2) for name in (TOPIC, dlq_topic(GROUP))}
    with Wire(cluster.namesrv_addr) as wire:
        body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigs(topic_config_table=table))
        assert wire.ask(RequestCode.REGISTER_BROKER, header, fastjson.dumps(body)).code == 0
        until(lambda: len(cluster.admin.topic_route(TOPIC).broker_datas) == 2)
        yield
    until(lambda: len(cluster.admin.cluster_info().broker_addr_table) == 1)


@pytest.mark.parametrize(
    "command",
    [
        f"topicStatus -t {TOPIC}", "topicList -c", f"consumerProgress -g {GROUP}", f"getConsumerConfig -g {GROUP}",
        f"printMsg -t {TOPIC}", f"msg cat {TOPIC}", f"haStatus -c {CLUSTER}", f"getColdDataFlowCtrInfo -c {CLUSTER}",
        f"listUser -c {CLUSTER}", f"user ls -c {CLUSTER}", f"listAcl -c {CLUSTER}", f"acl ls -c {CLUSTER}",
        "statsAll", "dlq ls", "consumerProgress", f"checkRocksdbCqWriteProgress -c {CLUSTER} -t {TOPIC}",
        f"brokerStatus -c {CLUSTER}", f"exportConfigs -c {CLUSTER}", f"exportMetrics -c {CLUSTER}",
        f"exportMetadata -c {CLUSTER}", f"consumeMessage -t {TOPIC}",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("dead")
def test_what_the_others_say_is_shown(run: Rmqadmin, command: str) -> None:
    ran = run("-o", "json", *command.split(), status=1)
    assert isinstance(ran.items, list)
    assert DEAD in ran.err


def test_where_nobody_answers_there_is_no_part_of_an_answer(run: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    """`brokerStatus -c` showed an empty table, and the exit status was that for partial success."""
    monkeypatch.setattr("rmqadmin.core.targets.replicas", lambda *args: [DEAD])
    run("brokerStatus", "-c", CLUSTER, "-n", "127.0.0.1:2", status=3, out="")


@pytest.mark.usefixtures("dead")
def test_rows_are_those_of_the_broker_that_answers(run: Rmqadmin) -> None:
    ran = run("topicStatus", "-t", TOPIC, "-o", "json")
    assert [(item["broker_name"], item["queue_id"]) for item in ran.items] == [("broker-a", 0), ("broker-a", 1)]
    assert "1 of 2 brokers did not answer: cannot connect to 127.0.0.1:1" in ran.err
    row, *_ = run("consumerProgress", "-g", GROUP, "-o", "json").items
    assert (row["broker_name"], row["lag_count"]) == ("broker-a", 0)


@pytest.mark.usefixtures("dead")
def test_a_message_is_found_beside_a_broker_that_does_not_answer(run: Rmqadmin, cluster: Cluster) -> None:
    """`queryMsgById` failed, and `msg get` ended with 0 as if all brokers had been asked."""
    message = Message(TOPIC, b"x", keys=["beside"])
    sent = cluster.admin.send_message(cluster.a.broker_addr, MessageQueue(TOPIC, "broker-a", 1), message)
    cluster.admin.update_consumer_offset(cluster.a.broker_addr, GROUP, TOPIC, 1, sent.queue_offset + 1)
    until(lambda: bool(cluster.admin.query_message(cluster.a.broker_addr, TOPIC, sent.message_id)))
    for command in (f"queryMsgById -t {TOPIC} -i {sent.message_id}", f"msg get {sent.message_id}", "msg get beside"):
        ran = run(*command.split(), "-o", "json")
        assert ([item["message_id"] for item in ran.items], ran.status) == ([sent.message_id], 1), command
        assert f"did not answer: cannot connect to {DEAD}" in ran.err
    place = run("msg", "get", f"{TOPIC}@broker-a:1:{sent.queue_offset}", "-o", "json")
    assert (place.status, place.err) == (0, ""), "no other broker was asked"


@pytest.mark.usefixtures("dead")
def test_what_a_user_may_do_is_known_of_the_brokers_that_answer(run: Rmqadmin) -> None:
    """It failed, and nothing was shown."""
    asked = ("acl", "can", "anybody", "Pub", f"Topic:{TOPIC}", "-o", "json")
    ran = run(*asked)
    assert ([row["allowed"] for row in ran.items], ran.status) == ([True], 1)
    assert f"1 of 2 brokers did not answer: cannot connect to {DEAD}" in ran.err


@pytest.mark.usefixtures("dead")
def test_the_lag_of_a_group_is_at_least_that_on_the_brokers_that_answer(run: Rmqadmin, cluster: Cluster) -> None:
    """The lag and the number of clients used to be unknown."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    stored = cluster.admin.send_message(cluster.a.broker_addr, queue, Message(TOPIC, b"x"))
    cluster.admin.update_consumer_offset(cluster.a.broker_addr, GROUP, TOPIC, 0, 0)
    lag_count = stored.queue_offset + 1
    ran = run("consumerProgress", "-o", "json")
    row = next(item for item in ran.items if item["group"] == GROUP)
    assert (row["lag_count"], row["lag_count_min"], row["client_count_min"]) == (None, lag_count, 0)
    assert row["error"] == f"broker-z: cannot connect to {DEAD}: Connection refused"
    assert (ran.status, "1 of 2 brokers did not answer" in ran.err) == (1, True)
    row_text = next(line for line in run("consumerProgress").out.splitlines() if line.startswith(GROUP))
    assert f"≥{lag_count} " in row_text


def test_mqadmin_gives_up_at_the_first_broker_that_does_not_answer() -> None:
    offsets = GroupOffsets({MessageQueue(TOPIC, "broker-a", 0): ConsumeOffset(broker_offset=7)}, 0.0)
    nobody = GroupClients({}, {}, {}, None, None, None)
    found = GroupFindings(GROUP, offsets, nobody, is_group=True, has_retry_topic=True, error="down", is_part=True)
    assert GroupsProgress([found]).mqadmin_text().split()[-1] == "0"


@pytest.mark.usefixtures("dead")
def test_dead_letters_of_the_brokers_that_answer_are_shown(run: Rmqadmin, cluster: Cluster) -> None:
    """None used to be shown. A redrive sends nothing and gives the reason."""
    topic = dlq_topic(GROUP)
    cluster.admin.create_topic(cluster.a.broker_addr, TopicConfig(topic_name=topic))
    until(lambda: len(cluster.admin.topic_route(topic).broker_datas) == 2)
    letter = Message(topic, b"dead", properties={props.RETRY_TOPIC: TOPIC})
    cluster.admin.send_message(cluster.a.broker_addr, MessageQueue(topic, "broker-a", 0), letter)
    ran = run("dlq", "show", GROUP, "-o", "json")
    assert [(item["broker_name"], item["body"], item["origin_topic"]) for item in ran.items] == [
        ("broker-a", "dead", TOPIC)
    ]
    assert (ran.status, f"1 of 2 brokers did not answer: cannot connect to {DEAD}" in ran.err) == (1, True)
    none = run("dlq", "show", GROUP, "--to-time", "@1000000000")
    assert (none.status, "as far as is known: 1 of 2 brokers did not answer" in none.err) == (1, True)
    redrive = run("dlq", "redrive", GROUP, "--execute", status=3, out="", err=f"cannot connect to {DEAD}")
    assert "nothing was sent now: all brokers of source and target must answer" in redrive.err


@pytest.mark.parametrize(
    "command",
    [
        f"queryMsgByKey -t {TOPIC} -k no", f"queryMsgByUniqueKey -t {TOPIC} -i no", f"getUser -c {CLUSTER} -u no",
        f"consumerConnection -g {GROUP}", f"producerConnection -g no -t {TOPIC}", "getConsumerConfig -g no",
        "consumerStatus -g no", f"queryMsgById -t {TOPIC} -i no", f"queryMsgTraceById -t {TOPIC} -i no",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("dead")
def test_what_is_not_found_may_be_at_the_broker_that_did_not_answer(run: Rmqadmin, command: str) -> None:
    """Exit status 5 would mean that it does not exist."""
    ran = run(*command.split())
    assert (ran.status, ran.out) == (1, "")
    assert ", as far as is known: 1 of 2 brokers did not answer: cannot connect to 127.0.0.1:1" in ran.err


@pytest.mark.usefixtures("dead")
def test_no_condition_of_a_watch_holds_while_a_broker_is_silent(
    run: Rmqadmin, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--until 'lag_count == 0'` would end before the lag of the other broker is known."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr("rmqadmin.cli.watch.time.sleep", sleep)
    ran = run("consumerProgress", "-g", GROUP, "--watch", "7", "--until", "lag_count == 0")
    assert (ran.status, slept) == (130, [7.0])
    assert "1 of 2 brokers did not answer" in ran.err


@pytest.fixture
def hung(
    run: Rmqadmin, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Server, list[str]]]:
    """broker-b, which has many topics and hangs, and the addresses of all requests. Its answers alone are given up
    soon: broker-a may be slow, as everything on a busy machine."""
    asked: list[str] = []
    request = BlockingClient.request

    def noted(client: BlockingClient, addr: str, *args: Any, timeout_s: float | None = None, **rest: Any) -> Command:
        asked.append(addr)
        return request(client, addr, *args, timeout_s=0.05 if addr == b.broker_addr else timeout_s, **rest)

    with servers.broker(tmp_path / "b", cluster.namesrv_addr, "broker-b") as b:
        for name in (TOPIC, *(f"many-{number}" for number in range(40))):
            cluster.admin.create_topic(b.broker_addr, TopicConfig(topic_name=name))
        until(lambda: "many-39" in cluster.admin.topic_list())
        until(lambda: len(cluster.admin.topic_route(TOPIC).broker_datas) == 2)
        os.kill(b.pid, signal.SIGSTOP)
        monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv_addr)
        monkeypatch.setattr(BlockingClient, "request", noted)
        try:
            yield b, asked
        finally:
            os.kill(b.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "command",
    ["topicList -c", f"topic describe {TOPIC}", f"consumerProgress -g {GROUP}"],
)
def test_a_broker_that_hangs_is_waited_for_once(hung: tuple[Server, list[str]], run: Rmqadmin, command: str) -> None:
    """`topicList -c` waited for the broker once per topic, `topic describe` for each part of its answer."""
    b, asked = hung
    ran = run(*command.split(), "-o", "json")
    assert (ran.status, b.broker_addr in ran.err) == (1, True)
    assert "1 of 2 brokers did not answer: " in ran.err
    assert ran.items
    assert asked.count(b.broker_addr) <= ASKED_AT_ONCE_DEFAULT  # all of them at once


def test_each_tick_of_a_watch_asks_it_again(
    hung: tuple[Server, list[str]], run: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    b, asked = hung

    def wake(seconds: float) -> None:
        os.kill(b.pid, signal.SIGCONT)
        monkeypatch.setattr(BlockingClient, "request", BLOCKING_REQUEST)

    monkeypatch.setattr("rmqadmin.cli.watch.time.sleep", wake)
    ran = run("topicStatus", "-t", TOPIC, "--watch", "7", "--until", "message_count >= 0", "-o", "jsonl", status=0)
    assert asked.count(b.broker_addr) == 1
    assert "broker-b" in ran.out.splitlines()[-1]


class Question:
    """Answers for each broker by address; raises those that are errors. ``asked`` lists the questions."""

    def __init__(self, **said: object):
        self.said = said
        self.asked: list[str] = []

    def __call__(self, addr: str) -> object:
        self.asked.append(addr)
        answer = self.said[addr]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("silence", [ConnectError("down", address="b"), RequestTimeoutError("b is slow")])
def test_one_that_was_silent_is_not_asked_again(silence: Exception) -> None:
    answers, question = Answers(), Question(a=1, b=silence)
    assert answers.of(question, ["a", "b"]) == {"a": 1}
    assert answers.of(question, ["a", "b"]) == {"a": 1}
    assert sorted(question.asked) == ["a", "a", "b"]
    assert answers.problem() == f"1 of 2 brokers did not answer: {silence}"


def test_one_that_refused_is_asked_the_next_question() -> None:
    answers = Answers()
    assert answers.of(Question(a=1, b=RefusedError(1, "no")), ["a", "b"]) == {"a": 1}
    assert answers.of(Question(a=1, b=2), ["a", "b"]) == {"a": 1, "b": 2}
    assert answers.problem() is not None


def test_a_broker_that_refused_did_answer() -> None:
    """It said "1 of 1 broker did not answer: refused"."""
    refused, silent = RefusedError(1, "no"), ConnectError("down", address="c")
    answers = Answers()
    with pytest.raises(RefusedError):
        answers.of(Question(b=refused), ["b"])
    assert answers.problem() == str(refused)
    answers.of(Question(a=1), ["a"])
    assert answers.problem() == f"1 of 2 brokers: {refused}"
    answers.of(Question(a=1, c=silent), ["a", "c"])
    assert answers.problem() == f"2 of 3 brokers: {refused}; {silent}"


def test_what_all_say_is_the_answer() -> None:
    answers = Answers()
    with pytest.raises(NotFoundError):
        answers.of(Question(a=NotFoundError("no"), b=NotFoundError("no")), ["a", "b"])
    assert Answers().of(Question(), []) == {}
    assert Answers().problem() is None


def test_a_broker_where_nobody_may_read_is_named(cluster: Cluster, run: Rmqadmin, tmp_path: Path) -> None:
    """Its messages were left out of what was shown and exported, and nothing said so."""
    topic = "half-closed"
    with servers.broker(tmp_path / "b", cluster.namesrv_addr, "broker-b") as b:
        for addr, perm in ((cluster.a.broker_addr, 6), (b.broker_addr, 2)):
            cluster.admin.create_topic(addr, TopicConfig(topic_name=topic, perm=perm))
        until(lambda: len(cluster.admin.topic_route(topic).queue_datas) == 2)
        for command in (("msg", "cat", topic), ("msg", "export", topic), ("printMsg", "-t", topic)):
            ran = run(*command, "-n", cluster.namesrv_addr)
            assert (ran.status, f"left out: {topic} on broker-b, where nobody may read it" in ran.err) == (0, True), ran


@pytest.mark.parametrize(
    "command",
    [f"msg cat {TOPIC}", f"msg cat {TOPIC} --tail 9", f"printMsg -t {TOPIC}", f"consumeMessage -t {TOPIC} -c 9"],
)
def test_a_broker_that_lets_nobody_pull_hides_no_others(
    cluster: Cluster, run: Rmqadmin, tmp_path: Path, command: str
) -> None:
    """As a slave whose master is gone: it says where its queues end, and serves no pull. Nothing was shown."""
    with servers.broker(tmp_path / "b", cluster.namesrv_addr, "broker-b", "--test-requests", "on") as b:
        cluster.admin.create_topic(b.broker_addr, topic_config(TOPIC, 2))
        for addr, name in ((cluster.a.broker_addr, "broker-a"), (b.broker_addr, "broker-b")):
            cluster.admin.send_message(addr, MessageQueue(TOPIC, name, 0), Message(TOPIC, b"x"))
        until(lambda: len(cluster.admin.topic_route(TOPIC).broker_datas) == 2)
        cluster.admin.set_faults(b.broker_addr, ["PULL_MESSAGE:error=SYSTEM_BUSY"])
        ran = run("-o", "json", *command.split(), "-n", cluster.namesrv_addr)
        assert ({item["broker_name"] for item in ran.items}, ran.status) == ({"broker-a"}, 1)
        assert "1 of 2 brokers: refused by" in ran.err
        if command.startswith("msg cat"):
            assert ", on the brokers that answered" in ran.err
            alone = run(*command.split(), "--queue", "broker-b:0", "-n", cluster.namesrv_addr, "-o", "json")
            assert (alone.status, alone.out, "(2 SYSTEM_BUSY)" in alone.err) == (1, "", True)


@pytest.mark.usefixtures("dead")
def test_what_was_read_is_not_called_all_if_a_broker_did_not_answer(run: Rmqadmin) -> None:
    assert "stopped because the end was reached, on the brokers that answered" in run("msg", "cat", TOPIC).err


def test_an_offset_id_of_a_broker_that_is_gone_is_told(run: Rmqadmin, cluster: Cluster) -> None:
    """Nothing said that another broker would have to be asked."""
    gone = offset_id(bytes((127, 0, 0, 1, 0, 0, 0, 9)), 77)
    ran = run("msg", "get", gone, "-n", cluster.namesrv_addr)
    assert (ran.status, "a broker at 127.0.0.1:9, which is none of those that were asked" in ran.err) == (5, True)
    here = run("msg", "get", UniqueIds().next(), "-n", cluster.namesrv_addr)
    assert (here.status, "none of those" in here.err) == (5, False)
