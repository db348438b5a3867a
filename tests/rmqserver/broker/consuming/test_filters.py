"""A subscription is compiled once, and again only when it changes."""

from typing import Any

import pytest

from rmqproto.bodies.groups import ConsumerData, SubscriptionData
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.java.java_hash import tag_code
from rmqserver.broker.clients.clients import Clients, ConsumerGroup
from rmqserver.broker.consuming import filters
from rmqserver.broker.consuming.filters import Filters
from rmqserver.broker.tables import consumer_filters
from rmqserver.broker.tables.consumer_filters import ConsumerFilters
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Refused


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
