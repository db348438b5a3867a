"""Seed files: what they may say, and what is there after the start."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqserver.seed.seed_file import Seed, read_seed
from tests.support.quick import first_is_quick
from tests.support.servers import Server

WHOLE = """\
topics:
  orders: {queue_nums: 4, message_type: FIFO, order: true, attributes: {reserve.time: 7}}
  plain:
groups: [billing, shipping]
messages:
- topic: orders
  body: 42
  tags: new
  keys: [a, b]
  properties: {x: "1"}
  queue_id: 3
- {topic: plain, json: {order: 7, name: ü}}
- {topic: plain, base64: AAEC}
"""


def read(directory: Path, text: str, name: str = "seed.yaml") -> Seed:
    path = directory / name
    path.write_text(text)
    return read_seed(str(path))


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    assert len(read(tmp_path, "\ufefftopics: [a]").topics) == 1
    assert len(read(tmp_path, '\ufeff{"topics": ["a"]}', "seed.json").topics) == 1


def test_what_a_file_says(tmp_path: Path) -> None:
    seed = read(tmp_path, WHOLE)
    orders, plain = seed.topics
    assert (orders.line, orders.config.topic_name, orders.config.read_queue_nums, orders.config.order) == (
        2, "orders", 4, True
    )  # fmt: skip
    assert orders.changes == {"+reserve.time": "7", "+message.type": "FIFO"}
    assert (plain.config.write_queue_nums, plain.changes) == (8, {})
    assert [group.config.group_name for group in seed.groups] == ["billing", "shipping"]
    first, second, third = seed.messages
    assert (first.line, first.topic, first.queue_id, first.body) == (6, "orders", 3, b"42")
    assert first.properties == {"x": "1", "TAGS": "new", "KEYS": "a b"}
    assert (second.body, second.queue_id) == ('{"order":7,"name":"ü"}'.encode(), -1)
    assert third.body == b"\0\1\2"


def test_json_and_nothing_at_all(tmp_path: Path) -> None:
    seed = read(tmp_path, '{\n\t"topics": {"t": {"perm": 6}},\n\t"groups": {"g": {"retry_max_times": 3}}}', "seed.json")
    assert [(topic.line, topic.config.perm) for topic in seed.topics] == [(2, 6)]
    assert seed.groups[0].config.retry_max_times == 3
    assert read(tmp_path, "") == Seed(str(tmp_path / "seed.yaml"), [], [], [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topics:\n  t: {queue_num: 4}", "line 2: topics.t.queue_num: is not known; did you mean queue_nums?"),
        ("topic: {}", "line 1: topic: is not known; did you mean topics?"),
        ("topics:\n  t:\n    perm: rw", "line 3: topics.t.perm: must be a whole number"),
        ("topics:\n  t: {order: 1}", "line 2: topics.t.order: must be true or false"),
        ("topics:\n  t:\n  t:", "line 3: topics.t: is there twice"),
        ("topics: 3", "line 1: topics: must be names with values"),
        ("groups:\n- {}", "line 2: groups[0]: must be text"),
        ("messages: {}", "line 1: messages: must be a list"),
        ("messages:\n- {topic: t}", "line 2: messages[0]: needs one of body, json, base64"),
        ("messages:\n- {topic: t, body: a, json: b}", "line 2: messages[0]: needs one of"),
        ("messages:\n- {body: a}", "line 2: messages[0]: has no topic"),
        ("messages:\n- {topic: t, base64: '!'}", "line 2: messages[0].base64: is not base64"),
        ("messages:\n- {topic: t, json: 2026-01-01}", "line 2: messages[0].json: is not JSON"),
        ('messages:\n- {topic: t, body: "", properties: {a: "\\x01"}}', "line 2: messages[0]: property 'a'"),
        ("topics: [", ", line "),
        ("a: b: c", "line 1: mapping values are not allowed "),
    ],
)
def test_what_is_not_understood_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"--seed {tmp_path}/seed.yaml")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_seed(str(tmp_path / "none"))
    (tmp_path / "latin").write_bytes(b"topics: [\xe4]")
    with pytest.raises(UsageError, match="the file must be UTF-8"):
        read_seed(str(tmp_path / "latin"))


StartStandalone = Callable[..., Server]

SEED = """\
topics:
  orders: {queue_nums: 1, message_type: FIFO}
groups:
  billing: {retry_max_times: 3}
messages:
- {topic: orders, body: first, tags: new, keys: k, properties: {x: y}}
- {topic: orders, body: second}
"""


def seeded(directory: Path, text: str = SEED) -> tuple[str, str]:
    (directory / "seed.yaml").write_text(text)
    return "--seed", str(directory / "seed.yaml")


@pytest.mark.parametrize("flush", first_is_quick(["sync", "async"]))
def test_all_of_it_is_there_when_the_server_is_ready_and_once(
    start_standalone: StartStandalone, tmp_path: Path, flush: str
) -> None:
    server = start_standalone("--flush", flush, *seeded(tmp_path))
    server.stop()
    server = start_standalone("--data", server.store_dir, "--flush", flush, *seeded(tmp_path))
    with AdminClient(server.namesrv_addr) as admin:
        assert admin.topic_route("orders").queue_datas[0].write_queue_nums == 1
        assert admin.topic_config(server.broker_addr, "orders").attributes == {"message.type": "FIFO"}
        groups = admin.all_groups(server.broker_addr).subscription_group_table
        assert groups["billing"].retry_max_times == 3
        first, second = admin.pull_message(server.broker_addr, MessageQueue("orders", "", 0), 0).messages
    assert (first.body, second.body) == (b"first", b"second")
    properties = first.properties
    assert (properties["TAGS"], properties["KEYS"], properties["x"]) == ("new", "k", "y")
    assert properties["UNIQ_KEY"]
    assert "messages=0 messages_left_out=2" in server.log_tail()


@pytest.mark.parametrize(
    ("text", "words"),
    first_is_quick(
        [
            ("topics:\n- ok\n- not legal", "line 3: The specified topic: not legal, contains illegal characters"),
            ("messages:\n- {topic: unknown, body: x}", "line 2: topic[unknown] not exist"),
            ("topics: [t]\nmessages:\n- {topic: t, body: x, queue_id: 8}", "line 3: request queueId[8] is illegal"),
        ]
    ),
)
def test_what_the_broker_refuses_is_an_error_of_its_line(
    start_standalone: StartStandalone, tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(RuntimeError) as failed:
        start_standalone(*seeded(tmp_path, text))
    assert "exit status 2" in str(failed.value)
    assert words in str(failed.value)
