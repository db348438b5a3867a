"""The filters of pulls, and pulls by SQL92."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqproto.bodies.groups import ConsumerData, SubscriptionData
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.java.java_hash import tag_code
from rmqserver.broker.clients.clients import Clients, ConsumerGroup
from rmqserver.broker.consuming import filters
from rmqserver.broker.consuming.filters import Filters
from rmqserver.broker.tables import consumer_filters
from rmqserver.broker.tables.consumer_filters import ConsumerFilters
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Refused
from tests.rmqserver.broker.golden_state import consume, create_topic, ok
from tests.rmqserver.broker.messaging import bodies, hold_pull, pull, send, text
from tests.rmqserver.store import golden
from tests.support import servers
from tests.support.wire import Wire


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The expressions that were compiled, in order."""
    found: list[str | None] = []

    def compile_noted(expression: str) -> MessageFilter:
        found.append(expression)
        return consumer_filters.compile_tags(expression)

    monkeypatch.setitem(consumer_filters.KINDS, "TAG", compile_noted)
    monkeypatch.setattr(filters, "compile_tags", compile_noted)
    return found


def made(settings: str = "") -> Filters:
    config = BrokerConfig.from_properties(settings)
    return Filters(config, ConsumerFilters(lambda: 0))


def subscribe(clients: Clients, expression: str, version: int) -> ConsumerGroup:
    data = SubscriptionData(topic="T", sub_string=expression, sub_version=version)
    clients.register_consumer(ConsumerData(group_name="G", subscription_data_set=[data]), "c", PEER, "JAVA", 1)
    return clients.consumers["G"]


PEER: Any = object()


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_everything_is_asked_nothing(expression: str | None) -> None:
    assert made().carried("TAG", expression) is EVERYTHING


def test_tags_are_asked_of_the_units_alone() -> None:
    wanted = made().carried(None, "A || B")
    assert wanted.accepts_properties is None
    assert wanted.accepts_code is not None
    assert [wanted.accepts_code(tag_code(tag)) for tag in "ABC"] == [True, True, False]


def test_pulls_that_say_the_same_share_what_was_compiled(
    compiled: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "COMPILED_MAX", 2)
    some = made()
    for expression in ("A", "B", "A", "B", "C", "C"):
        some.carried("TAG", expression)
    assert compiled == ["A", "B", "C"]
    long = "x" * (filters.EXPRESSION_REMEMBERED_CHARS + 1)
    some.carried("TAG", long)
    some.carried("TAG", long)
    assert compiled[3:] == [long, long], "16 MiB of expressions are not kept"


def test_subscription_is_compiled_anew_when_it_is_replaced(compiled: list[str | None]) -> None:
    some, clients = made(), Clients(lambda: 0)
    for expression, version in (("A", 1), ("A", 1), ("B", 2), ("C", 1)):
        group = subscribe(clients, expression, version)
        some.subscribed(group, group.subscriptions["T"], version)
    assert compiled == ["A", "B"]


def test_setting_is_asked_at_every_pull() -> None:
    """The setting may change while subscriptions exist."""
    config = BrokerConfig.from_properties("enablePropertyFilter=true")
    registered = ConsumerFilters(lambda: 0)
    some, clients = Filters(config, registered), Clients(lambda: 0)
    group = subscribe(clients, "a > 1", 1)
    subscription = group.subscriptions["T"]
    subscription.expression_type = "SQL92"
    registered.register("G", [subscription])
    asked = (lambda: some.carried("SQL92", "a > 1"), lambda: some.subscribed(group, subscription, 1))
    for ask in asked:
        assert ask().accepts_properties is not None
    config.update({"enablePropertyFilter": "false"})
    for ask in asked:
        with pytest.raises(Refused, match="does not support consumer to filter message by SQL92"):
            ask()


def test_a_kind_that_nobody_knows_is_everything_where_properties_are_asked() -> None:
    assert made("enablePropertyFilter=true").carried("CLASS", "x") is EVERYTHING


def test_expression_of_a_pull_that_does_not_compile_is_everything() -> None:
    """As in Apache's broker; an assert there says otherwise, but asserts are off in production."""
    some = made("enablePropertyFilter=true")
    assert some.carried("SQL92", "a >") is EVERYTHING
    with pytest.raises(Refused, match="parse the consumer's subscription failed"):
        some.carried("SQL92", "")


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_pull_with_tags_that_are_only_separators_is_refused(expression: str) -> None:
    some = made()
    for _ in range(2):  # a refusal is not remembered as a filter
        with pytest.raises(Refused, match="parse the consumer's subscription failed"):
            some.carried("TAG", expression)


def test_retries_are_asked_what_their_first_topic_asks_where_the_setting_says_so() -> None:
    config = BrokerConfig.from_properties("enablePropertyFilter=true\nfilterSupportRetry=true")
    registered = ConsumerFilters(lambda: 0)
    subscriptions = [
        SubscriptionData(topic=topic, sub_string=expression, sub_version=1, expression_type="SQL92")
        for topic, expression in (("T", "a > 5"), ("%RETRY%G", "TRUE"))
    ]
    registered.register("G", subscriptions)
    wanted = Filters(config, registered).subscribed(ConsumerGroup("G"), subscriptions[1], 1)
    asks = wanted.accepts_properties
    assert asks is not None
    assert [asks(b"RETRY_TOPIC\x01T\x02a\x01%b\x02" % value) for value in (b"5", b"6")] == [False, True]
    assert asks(b"RETRY_TOPIC\x01Another\x02a\x015\x02")
    assert asks(b"")


GROUP = "SqlGroup"
CARRIED = {"expression_type": "SQL92"}
BY_HEARTBEAT = {"group": GROUP, "expression": None}


server = servers.of_module("--set", "enablePropertyFilter=true")


def subscribe_by_heartbeat(wire: Wire, topic: str, expression: str, version: int = 1) -> None:
    data = SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type="SQL92")
    consume(wire, GROUP, data)


def fill(wire: Wire, topic: str) -> None:
    """Messages ``0`` to ``9``: ``a`` is the number, and every second one has the kind ``even``."""
    create_topic(wire, topic)
    for number in range(10):
        kind = {"kind": "even"} if number % 2 == 0 else {}
        ok(send(wire, topic, body=b"%d" % number, properties=text(a=str(number), **kind)))


def test_messages_are_chosen_by_their_properties(wire: Wire) -> None:
    fill(wire, "Chosen")
    assert bodies(pull(wire, "Chosen", expression="a BETWEEN 3 AND 5 OR a = 9", **CARRIED)) == [b"3", b"4", b"5", b"9"]
    assert bodies(pull(wire, "Chosen", expression="kind IS NULL AND a > 4.5", **CARRIED)) == [b"5", b"7", b"9"]
    answer = pull(wire, "Chosen", expression="kind = 'odd'", **CARRIED)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert answer.ext["nextBeginOffset"] == "10"
    assert len(bodies(pull(wire, "Chosen", expression="a >", **CARRIED))) == 10, "as with Apache's broker"


def test_heartbeats_say_what_a_group_wants(wire: Wire) -> None:
    fill(wire, "Said")
    subscribe_by_heartbeat(wire, "Said", "kind = 'even' AND a >= 4")
    assert bodies(pull(wire, "Said", **BY_HEARTBEAT, sub_version=1)) == [b"4", b"6", b"8"]
    subscribe_by_heartbeat(wire, "Said", "a < 2", version=2)
    assert bodies(pull(wire, "Said", **BY_HEARTBEAT, sub_version=2)) == [b"0", b"1"]
    answer = pull(wire, "Said", **BY_HEARTBEAT, sub_version=3)
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_bad_expression_of_a_heartbeat_is_told_to_its_pulls(wire: Wire) -> None:
    create_topic(wire, "Wrong")
    subscribe_by_heartbeat(wire, "Wrong", "a >")
    answer = pull(wire, "Wrong", **BY_HEARTBEAT)
    text_ = "The broker's consumer filter data is not exist!Your expression may be wrong!"
    assert (answer.code, answer.remark) == (ResponseCode.FILTER_DATA_NOT_EXIST, text_)


def test_waiting_pull_is_woken_by_what_it_wants_alone(wire: Wire, other: Wire) -> None:
    fill(wire, "Waits")
    hold_pull(other, "Waits", 0, 10, expression="a > 100", **CARRIED)
    ok(send(wire, "Waits", properties=text(a="99")))
    ok(send(wire, "Waits", properties=text(a="dear")))
    ok(send(wire, "Waits", properties=text(a="101"), body=b"wanted"))
    answer = other.receive()
    assert bodies(answer) == [b"wanted"]
    assert answer.ext["nextBeginOffset"] == "13"


def test_look_at_a_queue_shows_the_filter(wire: Wire) -> None:
    fill(wire, "Looked")
    subscribe_by_heartbeat(wire, "Looked", "a > 5", version=3)
    asked = {"topic": "Looked", "queueId": "0", "index": "0", "count": "1", "consumerGroup": GROUP}
    shown = json.loads(json.loads(ok(wire.ask(R.QUERY_CONSUME_QUEUE, asked)).body)["filterData"])
    assert (shown["expression"], shown["clientVersion"], shown["dead"]) == ("a > 5", 3, False)
    assert json.loads(ok(wire.ask(R.QUERY_CONSUME_QUEUE, asked | {"consumerGroup": "Nobody"})).body)["filterData"] == (
        "Nobody@Looked is not online!"
    )


def test_the_file_of_filters_of_an_apache_store_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "apache").mkdir()
    of_apache = (golden.unpack("clean", tmp_path / "apache") / "config/consumerFilter.json").read_bytes()
    settings = ("--set", "enablePropertyFilter=true")
    with servers.standalone(tmp_path / "ours", *settings) as server:
        file = Path(server.store_dir, "config/consumerFilter.json")
    assert not file.exists()
    file.write_bytes(of_apache)
    with servers.standalone(tmp_path / "ours", *settings) as server, Wire(server.broker_addr) as wire:
        fill(wire, "Kept")
        subscribe_by_heartbeat(wire, "Kept", "a = 5")
        assert bodies(pull(wire, "Kept", **BY_HEARTBEAT)) == [b"5"]
    assert file.read_bytes() == of_apache
