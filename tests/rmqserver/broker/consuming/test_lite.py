"""Lite topics over the wire: subscribing, ordered pops, acknowledgements, and the answers to tools."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.lite import (
    BrokerLiteInfo,
    LiteClientInfo,
    LiteGroupInfo,
    LiteSubscriptionChange,
    LiteSubscriptionCtl,
    LiteTopicInfo,
    OffsetOption,
)
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.popping import PopLiteHeader
from rmqproto.message.record import decode_records_untrusted
from rmqproto.pop import Handle
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore, now_ms
from rmqserver.store.new_message import NewMessage
from rmqserver.store.options import StoreOptions
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import create_topic, ok
from tests.rmqserver.broker.messaging import bodies, send, text
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.conftest import HOST
from tests.support import servers
from tests.support.clock import Clock
from tests.support.servers import Server
from tests.support.wire import Wire

LIGHT = ("--set", "enableLmq=true", "--set", "enableMultiDispatch=true")
TOPIC, GROUP = "LiteTopic", "LiteGroup"
HOLD_MS = 15_000
LONG_MS = 600_000


def create_lite_group(wire: Wire, group: str, **attributes: str) -> None:
    signed = {f"+{name.replace('_', '.')}": value for name, value in attributes.items()}
    config = SubscriptionGroupConfig(group_name=group, attributes={"+lite.bind.topic": TOPIC, **signed})
    ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=dumps(config)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.standalone(tmp_path_factory.mktemp("lite"), *LIGHT) as running:
        with Wire(running.broker_addr) as wire:
            create_topic(wire, TOPIC, 1, "+message.type=LITE")
            create_topic(wire, "NormalTopic")
            create_lite_group(wire, GROUP)
            create_lite_group(wire, "ExclusiveGroup", lite_sub_model="Exclusive")
            ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=dumps(SubscriptionGroupConfig(group_name="Plain"))))
        yield running


def put(wire: Wire, lite_topic: str, body: bytes = b"m") -> None:
    ok(send(wire, TOPIC, body=body, properties=text(__LITE_TOPIC=lite_topic)))


def change(
    wire: Wire, action: str, client_id: str, *lite_topics: str, group: str = GROUP, option: OffsetOption | None = None
) -> Command:
    one = LiteSubscriptionChange(
        action=action, client_id=client_id, group=group, lite_topic_set=list(lite_topics), offset_option=option,
        topic=TOPIC,
    )  # fmt: skip
    return wire.ask(R.LITE_SUBSCRIPTION_CTL, body=dumps(LiteSubscriptionCtl(subscription_set=[one])))


def pop_header(
    client_id: str,
    *,
    group: str = GROUP,
    topic: str = TOPIC,
    count: int = 8,
    poll_ms: int = 0,
    attempt: str | None = None,
) -> PopLiteHeader:
    born_ms = now_ms()
    return PopLiteHeader(
        client_id=client_id, consumer_group=group, topic=topic, max_msg_num=count, invisible_time=LONG_MS,
        poll_time=poll_ms, born_time=born_ms, attempt_id=attempt,
    )  # fmt: skip


def pop(wire: Wire, client_id: str, **fields: object) -> Command:
    return wire.ask(R.POP_LITE_MESSAGE, pop_header(client_id, **fields))  # type: ignore[arg-type]


def handled(popped: Command, lite_topic: str, offset: int, group: str = GROUP, **more: str) -> dict[str, str]:
    """Ext fields that acknowledge a popped message."""
    pop_time = int(popped.ext["popTime"])
    handle = Handle(offset, pop_time, LONG_MS, 999, "0", "broker-a", 0, offset)
    return {
        "consumerGroup": group, "topic": TOPIC, "queueId": "0", "extraInfo": str(handle), "offset": str(offset),
        "liteTopic": lite_topic, **more,
    }  # fmt: skip


def test_what_tools_are_told_as_apache_tells_it(wire: Wire) -> None:
    for name in (
        "200071-LITE_SUBSCRIPTION_CTL/01",
        "200075-GET_PARENT_TOPIC_INFO/02",
        "200079-TRIGGER_LITE_DISPATCH/01",
    ):
        play(wire, name)
    play(wire, "200078-GET_LITE_GROUP_INFO/05")
    ok(wire.ask(R.DELETE_SUBSCRIPTIONGROUP, {"groupName": "NoSuchGroup"}))
    play(wire, "200078-GET_LITE_GROUP_INFO/07")
    for number in range(3):
        for session in ("session-0", "session-1"):
            put(wire, session, b"lite %d" % number)
    play(wire, "200078-GET_LITE_GROUP_INFO/06")
    play(wire, "200076-GET_LITE_TOPIC_INFO/01", "lastUpdateTimestamp")
    popped = ok(pop(wire, "wire-lite", count=4))
    assert (popped.remark, popped.ext["reviveQid"], popped.ext["orderCountInfo"]) == ("FOUND", "999", "0;0;0;0")
    assert bodies(popped) == [b"lite 0", b"lite 1", b"lite 2", b"lite 0"]
    play(wire, "200078-GET_LITE_GROUP_INFO/01", "earliestUnconsumedTimestamp")
    lags = loads_untrusted(ok(wire.ask(R.GET_LITE_GROUP_INFO, {"group": GROUP, "topK": "5"})).body, LiteGroupInfo)
    assert {lag.lite_topic: lag.lag_count for lag in lags.lag_count_top_k or []} == {"session-0": 3, "session-1": 3}
    assert lags.total_lag_count == 6
    ok(change(wire, "COMPLETE_REMOVE", "wire-lite"))


def test_a_lite_topic_gives_nothing_until_all_of_it_is_acknowledged(wire: Wire) -> None:
    for number in range(3):
        put(wire, "ordered", b"m%d" % number)
    ok(change(wire, "PARTIAL_ADD", "one", "ordered"))
    first = ok(pop(wire, "one", count=2))
    assert bodies(first) == [b"m0", b"m1"]
    assert pop(wire, "one").code == ResponseCode.POLLING_TIMEOUT
    ok(wire.ask(R.ACK_MESSAGE, handled(first, "ordered", 0)))
    assert pop(wire, "one").code == ResponseCode.POLLING_TIMEOUT
    ok(wire.ask(R.ACK_MESSAGE, handled(first, "ordered", 1)))
    assert bodies(ok(pop(wire, "one"))) == [b"m2"]


def test_a_message_comes_again_when_its_time_is_changed_to_nothing(wire: Wire) -> None:
    put(wire, "again", b"m")
    ok(change(wire, "PARTIAL_ADD", "again", "again"))
    first = ok(pop(wire, "again"))
    changed = ok(wire.ask(R.CHANGE_MESSAGE_INVISIBLETIME, handled(first, "again", 0, invisibleTime="0")))
    assert changed.ext["reviveQid"] == "999"
    second = ok(pop(wire, "again"))
    assert (bodies(second), second.ext["orderCountInfo"]) == ([b"m"], "1")
    same = pop_header("again", attempt="attempt")
    assert wire.ask(R.POP_LITE_MESSAGE, same).code == ResponseCode.POLLING_TIMEOUT


def test_a_pop_that_waits_hears_when_the_rest_is_free_sooner(wire: Wire, other: Wire) -> None:
    put(wire, "sooner", b"m0")
    put(wire, "sooner", b"m1")
    ok(change(wire, "PARTIAL_ADD", "sooner", "sooner"))
    first = ok(pop(wire, "sooner"))
    header = pop_header("sooner", poll_ms=LONG_MS)
    other.send(encode_frame(Command(code=R.POP_LITE_MESSAGE, opaque=1, ext=to_ext(header))))
    ok(wire.ask(R.CHANGE_MESSAGE_INVISIBLETIME, handled(first, "sooner", 1, invisibleTime="500")))
    ok(wire.ask(R.ACK_MESSAGE, handled(first, "sooner", 0)))
    assert bodies(ok(other.receive())) == [b"m1"]


def test_a_pop_waits_for_any_of_its_lite_topics(wire: Wire, other: Wire) -> None:
    ok(change(other, "COMPLETE_ADD", "waiting", "w0", "w1", "w2"))
    other.send(
        encode_frame(Command(code=R.POP_LITE_MESSAGE, opaque=1, ext=to_ext(pop_header("waiting", poll_ms=HOLD_MS))))
    )
    put(wire, "w1", b"now")
    found = ok(other.receive())
    assert bodies(found) == [b"now"]
    (message,) = decode_records_untrusted(found.body)
    assert message.properties["INNER_MULTI_DISPATCH"] == "%LMQ%$LiteTopic$w1"


def test_a_pop_that_waits_sees_what_its_client_subscribes_to_meanwhile(wire: Wire, other: Wire) -> None:
    put(wire, "meanwhile", b"here")
    header = pop_header("meanwhile", poll_ms=HOLD_MS)
    other.send(encode_frame(Command(code=R.POP_LITE_MESSAGE, opaque=1, ext=to_ext(header))))
    other.send(encode_frame(Command(code=R.GET_BROKER_LITE_INFO, opaque=2)))
    assert other.receive().opaque == 2
    ok(change(wire, "PARTIAL_ADD", "meanwhile", "meanwhile"))
    assert bodies(ok(other.receive())) == [b"here"]


def test_an_acknowledgement_wakes_who_waits_for_the_rest(wire: Wire, other: Wire) -> None:
    put(wire, "rest", b"m0")
    ok(change(other, "PARTIAL_ADD", "rest", "rest"))
    first = ok(pop(other, "rest", count=1))
    put(wire, "rest", b"m1")
    other.send(
        encode_frame(Command(code=R.POP_LITE_MESSAGE, opaque=1, ext=to_ext(pop_header("rest", poll_ms=HOLD_MS))))
    )
    ok(wire.ask(R.ACK_MESSAGE, handled(first, "rest", 0)))
    assert bodies(ok(other.receive())) == [b"m1"]


def test_an_exclusive_lite_topic_goes_to_the_last_who_asks(wire: Wire, other: Wire) -> None:
    ok(change(wire, "PARTIAL_ADD", "first", "mine", group="ExclusiveGroup"))
    ok(change(other, "PARTIAL_ADD", "second", "mine", group="ExclusiveGroup"))
    told = wire.receive()
    assert told.code == R.NOTIFY_UNSUBSCRIBE_LITE
    assert told.ext == {"liteTopic": "mine", "consumerGroup": "ExclusiveGroup", "clientId": "first"}
    asked = {"parentTopic": TOPIC, "liteTopic": "mine"}
    info = loads_untrusted(ok(wire.ask(R.GET_LITE_TOPIC_INFO, asked)).body, LiteTopicInfo)
    assert [one.client_id for one in info.subscriber or []] == ["second"]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [("POLICY", 1, [b"m0", b"m1", b"m2"]), ("POLICY", 2, []), ("OFFSET", 1, [b"m1", b"m2"]), ("TAIL_N", 1, [b"m2"]),
     ("TIMESTAMP", 0, [b"m0", b"m1", b"m2"])],
)  # fmt: skip
def test_where_a_subscription_begins(wire: Wire, kind: str, value: int, found: list[bytes]) -> None:
    name = f"from-{kind}-{value}"
    for number in range(3):
        put(wire, name, b"m%d" % number)
    ok(change(wire, "PARTIAL_ADD", name, name, option=OffsetOption(type=kind, value=value)))
    assert bodies(pop(wire, name)) == found
    ok(change(wire, "COMPLETE_REMOVE", name))


def test_a_complete_subscription_replaces_the_one_before_and_ends_with_its_connection(
    server: Server, wire: Wire
) -> None:
    asked = {"parentTopic": TOPIC, "group": GROUP, "clientId": "complete"}

    def known() -> LiteClientInfo:
        return loads_untrusted(ok(wire.ask(R.GET_LITE_CLIENT_INFO, asked)).body, LiteClientInfo)

    with Wire(server.broker_addr) as client:
        ok(change(client, "COMPLETE_ADD", "complete", "a", "b"))
        ok(change(client, "COMPLETE_ADD", "complete", "b", "c"))
        ok(change(client, "PARTIAL_REMOVE", "complete", "c"))
        assert known().lite_topic_set == ["%LMQ%$LiteTopic$b"]
        assert known().last_access_time > 0
    servers.until(lambda: known().lite_topic_count == -1)
    counted = loads_untrusted(ok(wire.ask(R.GET_BROKER_LITE_INFO)).body, BrokerLiteInfo)
    assert counted.topic_meta == {TOPIC: -1}
    assert counted.group_meta == {TOPIC: [GROUP, "ExclusiveGroup"]}


def test_what_is_refused(wire: Wire) -> None:
    for answer, code, remark in (
        (pop(wire, "c", topic="NoSuchTopic"), 17, "topic [NoSuchTopic] not exist, apply first please!"),
        (pop(wire, "c", topic="NormalTopic"), 29, "the topic [NormalTopic] message type not match"),
        (pop(wire, "c", group="Plain"), 29, "subscription bind topic not match, Plain"),
        (pop(wire, "c", count=33), 29, "pop message's num is greater than 32"),
        (wire.ask(R.LITE_SUBSCRIPTION_CTL), 604, "Request body is null."),
        (wire.ask(R.LITE_SUBSCRIPTION_CTL, body=b"{}"), 604, "LiteSubscriptionCtlRequestBody is empty."),
        (change(wire, "PARTIAL_ADD", "c", "x", group="NoGroup"), 604, "Consumer group is not allowed to consume."),
        (wire.ask(R.GET_PARENT_TOPIC_INFO, {"topic": "NoSuchTopic"}), 17, "Topic [NoSuchTopic] not exist."),
        (
            wire.ask(R.GET_LITE_CLIENT_INFO, {"parentTopic": TOPIC, "group": "Plain"}),
            29,
            "Subscription [Plain]-[LiteTopic]",
        ),
        (wire.ask(R.TRIGGER_LITE_DISPATCH, {"group": "Plain"}), 29, "Group [Plain] is not a LITE group."),
    ):
        assert answer.code == code
        assert remark in (answer.remark or "")
    put(wire, "refused")
    ok(change(wire, "PARTIAL_ADD", "refused", "refused"))
    popped = ok(pop(wire, "refused"))
    for fields, code, remark in (
        (handled(popped, "refused", 0, group="Plain"), 29, "group type or bind topic not match."),
        (handled(popped, "refused", 7), 208, "ack offset illegal."),
        ({**handled(popped, "refused", 0), "extraInfo": "0 1 2 0 0 broker-a 0 0"}, 29, "ack queue illegal."),
    ):
        answer = wire.ask(R.ACK_MESSAGE, fields)
        assert (answer.code, answer.remark) == (code, remark)


def test_a_quota_of_subscriptions(tmp_path: Path) -> None:
    settings = (*LIGHT, "--set", "maxLiteSubscriptionCount=1")
    with servers.standalone(tmp_path, *settings) as server, Wire(server.broker_addr) as wire:
        create_topic(wire, TOPIC, 1, "+message.type=LITE")
        create_lite_group(wire, GROUP)
        ok(change(wire, "PARTIAL_ADD", "c", "a"))
        ok(change(wire, "PARTIAL_ADD", "c", "a"))
        answer = change(wire, "PARTIAL_ADD", "c", "b")
    assert answer.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED


def with_expiring_lite_topics(root: Path, clock: Clock) -> tuple[MessageStore, ConfigFiles, BrokerAssembly]:
    """A broker's parts on an open store, and a parent topic whose lite topics expire after two minutes."""
    store = MessageStore(
        root, StoreOptions(light_queues_enabled=True, commit_log_file_size_bytes=1 << 20), clock_ms=clock,
        background=False,
    )  # fmt: skip
    store.open()
    files = ConfigFiles(str(root / "config"), OsDisk())
    parts = parts_on(store, files, "enableLmq=true\nenableMultiDispatch=true\nminLiteTTl=0")
    attributes = {"message.type": "LITE", "lite.topic.expiration": "2"}
    parts.topics.put(TopicConfig(topic_name=TOPIC, attributes=attributes))
    return store, files, parts


def put_light(store: MessageStore, lite_topic: str) -> None:
    properties = {"INNER_MULTI_DISPATCH": f"%LMQ%${TOPIC}${lite_topic}"}
    store.put(NewMessage(TOPIC, 0, 0, 0, 1, HOST, HOST, 0, b"m", properties))
    store.commit()


def lite_topics(store: MessageStore) -> list[str]:
    prefix = f"%LMQ%${TOPIC}$"
    return sorted(name.removeprefix(prefix) for name in store.queues.names() if name.startswith(prefix))


def test_lite_topics_that_nobody_writes_to_go(tmp_path: Path) -> None:
    clock = Clock()
    store, files, parts = with_expiring_lite_topics(tmp_path, clock)
    lite = parts.lite
    for name in ("idle", "behind", "young"):
        clock.now_ms += 60_000 * (name == "young")
        put_light(store, name)
        parts.offsets.commit(GROUP, f"%LMQ%${TOPIC}${name}", 0, int(name != "behind"))
    trio.run(lite.remove_expired)
    assert store.queues.light_count == 3
    clock.now_ms += 61_000
    trio.run(lite.remove_expired)
    assert lite_topics(store) == ["behind", "young"]
    assert parts.offsets.committed(GROUP, f"%LMQ%${TOPIC}$idle", 0) is None
    files.close()
    store.close()


def test_a_lite_topic_that_cannot_be_read_ends_no_task(tmp_path: Path) -> None:
    """It used to end the broker, with the first look at which lite topics have expired, or have messages for a wildcard
    group."""
    clock = Clock()
    store, files, _ = with_expiring_lite_topics(tmp_path, clock)
    for name in ("a-damaged", "idle"):
        put_light(store, name)
    files.close()
    store.close()
    (file,) = (tmp_path / "consumequeue" / f"%LMQ%${TOPIC}$a-damaged" / "0").iterdir()
    os.truncate(file, 30)
    store, files, parts = with_expiring_lite_topics(tmp_path, clock)
    lite = parts.lite
    attributes = {"lite.bind.topic": TOPIC, "lite.sub.wildcard": "true"}
    parts.groups.put(SubscriptionGroupConfig(group_name=GROUP, attributes=attributes))
    peer: Any = SimpleNamespace(closed=False)
    lite.subscriptions.change(LiteSubscriptionChange(action="COMPLETE_ADD"), "c", GROUP, TOPIC, peer)
    trio.run(lite.search, TOPIC, GROUP)
    ready = lite.subscriptions.by_client["c"].ready
    assert [name for name in ready if name.startswith("%LMQ%")] == [f"%LMQ%${TOPIC}$idle"]
    clock.now_ms += 121_000
    trio.run(lite.remove_expired)
    assert lite_topics(store) == ["a-damaged"]
    files.close()
    store.close()
