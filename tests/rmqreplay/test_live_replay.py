"""Requests, targets and audits against a running broker, without Spark."""

import os
import time

import pytest
from msgspec.structs import replace

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES
from rmqreplay.ledger.audit import audit
from rmqreplay.plans.plan import Plan, Selection, Source, TargetRule, Transform
from rmqreplay.plans.request import ReplayRequest, freeze, parse_offsets
from rmqreplay.run.consumers import CanaryReport, watch_canary
from rmqreplay.sending.delivery import TaskDelivery
from rmqreplay.sending.permit_service import PermitClient, PermitService
from rmqreplay.sending.permits import PermitBook
from rmqreplay.sending.redrive import Original, Redrive
from rmqreplay.sending.target import ReplayTarget, read_fences
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet
from tests.support.quick import in_one_test
from tests.support.servers import Server, topic_config, until


@pytest.fixture
def topic(server: Server, admin: AdminClient, fresh) -> str:
    """A topic of two queues, readable and writable."""
    name = fresh("ReplayTopic")
    make_topic(admin, server, name)
    return name


def make_topic(admin: AdminClient, server: Server, name: str, perm: int = 6) -> None:
    admin.create_topic(server.broker_addr, topic_config(name, 2, perm=perm))
    until(lambda: name in admin.topic_list())


def messages(topic: str, count: int) -> list:
    """Messages that are ready to be sent, as a redrive makes them."""
    rules = Redrive("job", TargetRule(kind="topic", name=topic, topics=[topic]), Transform())
    queue = MessageQueue("%DLQ%g", "broker-a", 0)
    return [rules.outgoing(Original(queue, at, topic, "X" * 32, {}, b"body", 0, 0)) for at in range(count)]


def test_a_second_attempt_finds_what_the_first_sent_and_the_audit_agrees(server: Server, topic: str) -> None:
    with LiveCluster(server.namesrv_addr) as cluster:
        fences = read_fences(cluster, [topic])
        assert [fence.queue_offset for fence in fences] == [0, 0]
        service = PermitService(PermitBook(time.monotonic, settle_s=0.0, ttl_s=0.2))
        service.open_wave(0, recovering=False)
        target = ReplayTarget(server.namesrv_addr, fences, "job", keep_order=False, send_timeout_s=30)
        try:
            for attempt, count in ((1, 70), (2, 100)):
                permits = PermitClient(service.address, 0, 0, attempt)
                done = TaskDelivery(target, permits, time.monotonic, time.sleep).run(messages(topic, count))
                permits.close()
        finally:
            target.close()
            service.close()
        assert (len(done.stored), len(done.found)) == (30, 70)
        everything = OffsetSet.of_offsets([*done.stored, *done.found])
        assert audit(fences, cluster, "job", everything).is_good
        assert audit(read_fences(cluster, [topic]), cluster, "job", everything).missing == 100
        beyond = [replace(fence, queue_offset=1000) for fence in fences]
        assert audit(beyond, cluster, "job", everything).is_good, "a topic made anew has what was sent below its fences"


@pytest.mark.slow
def test_how_large_a_message_may_be_is_the_brokers_decision(server: Server, topic: str) -> None:
    """The largest that a request carries, too, with the longest properties: the broker reads that frame and refuses the
    message, instead of closing the connection. The bodies cannot be compressed, else they would be."""
    rules = Redrive("job", TargetRule(kind="topic", name=topic, topics=[topic]), Transform())
    queue, long = MessageQueue("%DLQ%g", "broker-a", 0), {"long": "x" * 32_500}

    def deliver(*sizes: int) -> list[tuple[int, str]]:
        """Code and remark of each that is refused."""
        fences = read_fences(cluster, [topic])
        target = ReplayTarget(server.namesrv_addr, fences, "job", keep_order=False, send_timeout_s=30)
        service = PermitService(PermitBook(time.monotonic, settle_s=0.0, ttl_s=60))
        service.open_wave(0, recovering=False)
        permits = PermitClient(service.address, 0, 0, 1)
        made = [rules.outgoing(Original(queue, at, topic, "X" * 32, long, os.urandom(size), 0, 0))
                for at, size in enumerate(sizes)]  # fmt: skip
        try:
            done = TaskDelivery(target, permits, time.monotonic, time.sleep).run(made)
        finally:
            permits.close()
            target.close()
            service.close()
        assert len(done.stored) + len(done.rejected) == len(sizes)
        assert done.doubtful_count == 0
        return [(each.code, each.remark) for each in done.rejected]

    with LiveCluster(server.namesrv_addr) as cluster:
        try:
            refused = deliver(5 << 20, BODY_SIZE_MAX_BYTES)
            assert [code for code, _ in refused] == [13, 13]
            assert "body length limit 4194304B" in refused[0][1]
            cluster.admin.update_broker_config(server.broker_addr, {"maxMessageSize": str(8 << 20)})
            assert deliver(5 << 20) == []
        finally:
            cluster.admin.update_broker_config(server.broker_addr, {"maxMessageSize": str(4 << 20)})


def test_the_audit_names_what_is_doubled_and_what_is_missing(server: Server, topic: str) -> None:
    """An audit that cannot find a fault would prove nothing."""
    first, second = messages(topic, 2)
    with LiveCluster(server.namesrv_addr) as cluster:
        fences = read_fences(cluster, [topic])
        for sent in (first, first):
            from rmqproto.message import properties as props

            message = Message(topic, sent.body, properties=props.parse(sent.properties))
            cluster.admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), message)
        found = audit(fences, cluster, "job", OffsetSet.of_offsets([first.place, second.place]))
    assert (found.expected, found.found, found.missing, found.doubled) == (2, 1, 1, 1)
    assert found.doubled_places == ["%DLQ%g/broker-a/0@0"]
    assert found.missing_places == ["%DLQ%g/broker-a/0@1"]


def test_a_canary_is_judged_by_what_its_groups_have_taken_and_by_the_dead(server: Server, topic: str, fresh) -> None:
    group = fresh("CanaryGroup")
    dlq = f"%DLQ%{group}"
    queue = MessageQueue(topic, "broker-a", 0)
    plan = Plan(
        job="job", created_ms=1, source=Source(name_server=server.namesrv_addr), ranges=[],
        target=TargetRule(kind="topic", name=topic, topics=[topic]),
    )  # fmt: skip
    began_ms = time.time_ns() // 1_000_000
    with LiveCluster(server.namesrv_addr) as cluster:
        fences = read_fences(cluster, [topic])

        def send(to: str) -> None:
            for name in ("other", plan.replay_job):
                properties = {"REPLAY_ID": f"{name}:broker-a:T:0:1"}
                message = Message(to, b"x", properties=properties)
                cluster.admin.send_message(server.broker_addr, MessageQueue(to, "broker-a", 0), message)

        def look(wait_s: float = 0.0) -> CanaryReport:
            return watch_canary(plan, cluster, fences, began_ms, wait_s, sleep=commit)

        def commit(seconds: float = 0.0) -> None:
            cluster.admin.update_consumer_offset(server.broker_addr, group, topic, 0, 2)

        send(topic)
        assert look() == CanaryReport(), "nobody reads the topic"
        assert look().is_good
        cluster.admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
        cluster.admin.update_consumer_offset(server.broker_addr, group, topic, 0, 1)
        assert look() == CanaryReport({group: 1}, {group: 0})
        assert not look().is_good
        assert look(wait_s=60).is_good, "the group caught up while it was waited for"
        assert cluster.committed(group, queue) == 2
        make_topic(cluster.admin, server, dlq)  # as with the group's first dead letter, during the watch
        send(dlq)
        assert look(wait_s=60) == CanaryReport({group: 0}, {group: 1}), "one of another job is not ours"
        assert str(look()) == f"{group}: none behind, 1 dead"


def test_a_delayed_message_waits_in_the_brokers_schedule(server: Server, topic: str) -> None:
    with LiveCluster(server.namesrv_addr) as cluster:
        fences = read_fences(cluster, [topic])
        schedule = ("SCHEDULE_TOPIC_XXXX", 17)
        before = cluster.admin.max_offset(server.broker_addr, *schedule)
        rules = Redrive("job", TargetRule(kind="topic", name=topic, topics=[topic]), Transform(delay_level=18))
        queue = MessageQueue("%DLQ%g", "broker-a", 0)
        delayed = [rules.outgoing(Original(queue, at, topic, "X" * 32, {}, b"body", 0, 0)) for at in range(3)]
        service = PermitService(PermitBook(time.monotonic, settle_s=0.0))
        service.open_wave(0, recovering=False)
        permits = PermitClient(service.address, 0, 0, 1)
        target = ReplayTarget(server.namesrv_addr, fences, "job", keep_order=False, send_timeout_s=30)
        try:
            done = TaskDelivery(target, permits, time.monotonic, time.sleep).run(delayed)
        finally:
            permits.close()
            target.close()
            service.close()
        assert len(done.stored) == 3
        until(lambda: cluster.admin.max_offset(server.broker_addr, *schedule) == before + 3)
        assert read_fences(cluster, [topic]) == fences, "not there yet"


def test_a_target_that_cannot_be_read_or_is_not_there_is_refused(server: Server, fresh) -> None:
    name = fresh("WriteOnly")
    with LiveCluster(server.namesrv_addr) as cluster:
        make_topic(cluster.admin, server, name, perm=2)
        with pytest.raises(Exception, match="cannot be both written and read"):
            read_fences(cluster, [name])
        with pytest.raises(NotFoundError, match="does not exist"):
            read_fences(cluster, [fresh("Nowhere")])


def test_requests_become_numbers(server: Server, admin: AdminClient, topic: str) -> None:
    for number in range(6):
        queue = MessageQueue(topic, "broker-a", number % 2)
        admin.send_message(server.broker_addr, queue, Message(topic, b"x"))

    def ranges(**changes) -> list[tuple[int, int, int]]:
        request = ReplayRequest(name_server=server.namesrv_addr, topics=[topic], to="topic:elsewhere", **changes)
        return [(each.queue.queue_id, each.start, each.end) for each in freeze(request).ranges]

    assert ranges() == [(0, 0, 3), (1, 0, 3)]
    assert ranges(queues=["broker-a:1"]) == [(1, 0, 3)]
    with pytest.raises(NotFoundError, match="none of --queue broker-a:9") as caught:
        ranges(queues=["broker-a:9"])
    assert "broker-a:1" in str(caught.value.hint)
    assert ranges(offsets=parse_offsets(f'{{"{topic}":{{"broker-a":{{"0":[1,2]}}}}}}')) == [(0, 1, 2)]
    assert ranges(start_ms=1_000_000_000_000) == [(0, 0, 3), (1, 0, 3)]
    for nothing in ({"end_ms": 1_000_000_000_000}, {"queues": ["broker-b:0"]}):
        with pytest.raises(NotFoundError):
            ranges(**nothing)
    with pytest.raises(UsageError, match="begins in the future"):
        ranges(start_ms=4_000_000_000_000)


@in_one_test("", "[]", '{"T": 5}', '{"T":{"b":{"0":[1]}}}', '{"T":{"b":{"0":[-3,2]}}}', '{"T":{"b":{"x":[1,2]}}}')
def test_offsets_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match="--offsets"):
        parse_offsets(text)


@in_one_test(
    ({"topics": []}, "nothing is selected"),
    ({"path": "/s"}, "either from"),
    ({"to": "same"}, "back into it"),
    ({"to": "topic:T"}, "endlessly"),
    ({"to": "group"}, "is not a target"),
    ({"to": None}, "where should the messages go"),
    ({"topics": [], "dlq_group": "%DLQ%g"}, "name the group, g"),
    ({"to": "file:/x", "transform": Transform(set_tag="a")}, "unchanged leave out --set-tag"),
    ({"transform": Transform(delay_level=3)}, "delayed"),
    ({"transform": Transform(delay_level=3)}, "--at-least-once"),
    ({"at_least_once": True}, "is for --delay-level"),
    ({"transform": Transform(delay_level=3), "at_least_once": True, "canary": 5}, "come later"),
    ({"transform": Transform(delay_level=3), "at_least_once": True, "to": "group:g"}, "straight back"),
    ({"transform": Transform(park_topic="P")}, "needs --dlq"),
    ({"transform": Transform(park_topic="X", redrives_max=3)}, "go to anyway"),
    ({"transform": Transform(park_topic="%RETRY%g", redrives_max=3)}, "belongs to a group"),
    ({"to": "file:/x", "canary": 5}, "a file has none"),
    ({"dedup": "colour"}, "none of"),
    ({"dedup_keep": "newest"}, "--dedup-keep newest is none of first, last"),
    ({"offsets": [], "start_ms": 1}, "only one of them"),
    ({"name_server": None, "path": "/s"}, "where to send"),
    ({"selection": Selection(sql92="a >")}, 'sql92: Encountered "<EOF>"'),
    ({"selection": Selection(json_values={"type": "refund"})}, "is not a JSON path"),
    ({"selection": Selection(body_pattern="(")}, "is not a regular expression"),
    ({"offsets": [OffsetRange(MessageQueue("U", "b", 0), 1, 2)]}, "not selected"),
)
def test_what_cannot_be_asked_is_said_before_anything_is_asked(changes, problem) -> None:
    request = {"name_server": "127.0.0.1:1", "topics": ["T"], "to": "topic:X", **changes}
    with pytest.raises(UsageError) as caught:
        freeze(ReplayRequest(**request))
    assert problem in f"{caught.value} {caught.value.hint}"


def test_a_canary_of_which_all_was_parked_is_watched_too(server: Server, topic: str) -> None:
    """No message went to the group's retry topic, so the plan does not have it as a target."""
    plan = Plan(
        job="job", created_ms=1, source=Source(name_server=server.namesrv_addr), ranges=[],
        target=TargetRule(kind="group", name="SpentGroup", topics=[topic]),
    )  # fmt: skip
    with LiveCluster(server.namesrv_addr) as cluster:
        assert watch_canary(plan, cluster, read_fences(cluster, [topic]), 1, 0.0).is_good
