"""``--seed FILE``: the seed is there once the server says that it is ready."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from tests.support.quick import first_is_quick
from tests.support.servers import Server

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
