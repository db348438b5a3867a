"""What is said of one topic, or of one group, in a list."""

import pytest

from rmqadmin.core.health.group_checks import group_row_findings
from rmqadmin.core.health.topic_checks import topic_row_findings
from rmqproto.bodies.routes import TopicConfig
from tests.support.quick import in_one_test


def config(perm: int = 6, read: int = 4, write: int = 4) -> TopicConfig:
    return TopicConfig(topic_name="orders", perm=perm, read_queue_nums=read, write_queue_nums=write)


@in_one_test(
    (config(), config(), 0, []),
    (config(perm=4), config(perm=4), None, ["no write permission"]),
    (config(perm=4), config(), None, ["no write permission on broker-a"]),
    (config(), config(perm=2), None, ["no read permission on broker-b"]),
    (config(perm=0), config(perm=0), None, ["no write permission", "no read permission"]),
    (config(perm=7), config(), None, ["permissions differ between brokers"]),
    (config(read=2), config(), None, ["consumers read 6 of 8 queues"]),
    (config(read=2), config(), 7, ["7 messages in queues that consumers do not read"]),
    (config(), config(), 1, ["1 message in queues that consumers do not read"]),
)
def test_a_topic(a: TopicConfig, b: TopicConfig, unread_count: int | None, said: list[str]) -> None:
    found = topic_row_findings("orders", {"broker-a": a, "broker-b": b}, unread_count)
    assert [one.what for one in found] == said
    assert all(one.is_bad for one in found)


def test_a_topic_that_only_the_name_server_knows() -> None:
    assert topic_row_findings("orders", {}, None) == []


@pytest.mark.parametrize(
    ("may_consume", "said"),
    [(True, []), (False, ["may not consume"]), (None, ["may consume on some brokers"])],
)
def test_a_group(may_consume: bool | None, said: list[str]) -> None:
    assert [one.what for one in group_row_findings("billing", may_consume)] == said
