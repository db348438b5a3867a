"""The commands of ``docs/messages.md``, run one after the other as they stand, on topics of this test's own."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import Server, until

PAGE = (Path(__file__).parents[4] / "docs" / "messages.md").read_text()
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("rmqadmin ")]


@pytest.fixture
def names(server: Server, fresh: Callable[[str], str]) -> dict[str, str]:
    """The names of the page, and what they stand for: topics of which one has messages, and a key."""
    found = {"OrderTopic": fresh("PageOrders"), "CopyTopic": fresh("PageCopies"), "ORDER-1": fresh("PAGE-ORDER")}
    with AdminClient(server.namesrv_addr) as admin:
        for topic in (found["OrderTopic"], found["CopyTopic"]):
            config = TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2)
            admin.create_topic(server.broker_addr, config)
        until(lambda: set(found.values()) - set(admin.topic_list()) == {found["ORDER-1"]})
        for at in range(30):
            message = Message(
                found["OrderTopic"], b'{"order":{"id":%d},"text":"Refund"}' % at, tags="paid" if at % 2 else "new",
                keys=found["ORDER-1"], properties={"region": "eu", "price": "120"},
            )  # fmt: skip
            queue = MessageQueue(message.topic, "broker-a", at % 2)
            admin.send_message(server.broker_addr, queue, message)
        until(lambda: len(admin.query_message(server.broker_addr, found["OrderTopic"], found["ORDER-1"])) == 30)
    return found


def run_line(rmqadmin: Rmqadmin, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of a shell: pipes between commands of ours, ``> FILE`` behind the last, a comment."""
    words = shlex.split(line, comments=True)
    target = Path(words[-1]) if len(words) > 2 and words[-2] == ">" else None
    words = words[:-2] if target else words
    data = b""
    while words:
        end = words.index("|") if "|" in words else len(words)
        command, words = words[:end], words[end + 1 :]
        assert command[0] == "rmqadmin"
        with monkeypatch.context() as patch:
            out = io.TextIOWrapper(io.BytesIO(), write_through=True)
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            ran = rmqadmin(*command[1:])
            assert ran.status == 0, f"{line}: {ran.err}"
        data = out.detach().getvalue()  # type: ignore[attr-defined]
    assert data, line
    if target is not None:
        target.write_bytes(data)


def test_the_commands_of_the_page(
    rmqadmin: Rmqadmin, server: Server, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) >= 15
    for line in COMMANDS:
        if "--jq" in line and not find_spec("jq"):
            continue
        for written, meant in names.items():
            line = line.replace(written, meant)
        if "--jsonpath" in line:
            line = line.replace("42", "7")  # there is no order 42 here
        run_line(rmqadmin, line, monkeypatch)
    assert (tmp_path / "order.json").read_bytes() == b'{"order":{"id":0},"text":"Refund"}'
    assert len((tmp_path / "bodies.bin").read_bytes()) > 30 * 34
    with AdminClient(server.namesrv_addr) as admin:
        ends = [admin.max_offset(server.broker_addr, names["CopyTopic"], queue_id) for queue_id in (0, 1)]
    assert ends == [16, 15]
