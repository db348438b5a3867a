"""``store verify``, as people and scripts see it."""

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from tests.rmqadmin.conftest import Rmqadmin, Terminal, lines_left, status
from tests.rmqserver.store.golden import unpack, without_timers
from tests.support.servers import Server, topic_config


@pytest.fixture(scope="module")
def killed(tmp_path_factory: Any) -> Path:
    return without_timers(unpack("killed", tmp_path_factory.mktemp("killed")))


@pytest.fixture(scope="module")
def torn(tmp_path_factory: Any) -> Path:
    return without_timers(unpack("torn-body", tmp_path_factory.mktemp("torn")))


def test_a_store_without_damage_ends_with_0(run: Rmqadmin, killed: Path) -> None:
    ran = run("-o", "json", "store", "verify", str(killed))
    assert (ran.status, ran.err) == (0, "")
    summary = ran.document["summary"]
    assert (summary["verdict"], summary["records"], summary["errors"]) == ("clean", 2611, 0)
    assert ran.items == []
    noted = run("-o", "json", "store", "verify", str(killed), "--all").items
    assert len(noted) == summary["notes"] > 3
    assert {item["severity"] for item in noted} == {"note"}


def test_a_damaged_one_ends_with_7_and_says_where_and_what_is_lost(run: Rmqadmin, torn: Path) -> None:
    ran = run("-o", "json", "store", "verify", str(torn), status=7, err="is damaged: 1 error, 0 warnings")
    (item,) = ran.items
    assert item["kind"] == "log-tail"
    assert (item["path"], item["at_byte"], item["log_offset"]) == ("commitlog/00000000000001048576", 492131, 1540707)
    assert item["lost_messages"] == ran.document["summary"]["lost_messages"] == 1
    assert item["ours"] == item["apache"] == "cuts the log off here"


def test_a_person_sees_a_line_a_finding(run: Rmqadmin, torn: Path) -> None:
    ran = run("store", "verify", str(torn))
    lines = ran.out.splitlines()
    assert lines[0].split()[:3] == ["SEVERITY", "WHAT", "PATH"]
    assert lines[1].startswith("error ")
    assert lines[1].count("cuts the log off here") == 2
    assert "Verdict: damaged" in lines


def test_80_columns_show_where_and_what_is_lost(terminal: Terminal, torn: Path) -> None:
    child = terminal("store", "verify", str(torn), columns=80)
    assert status(child) == 7
    text = re.sub(r"\s+", " ", str(child.before))
    place = "error commitlog/00000000000001048576, byte 492,131:"
    assert (
        f"{place} the lengths of a record do not add up: 92 bytes; a message of what is most likely PlainTopic-1"
        in text
    )
    assert "lost: 1 message" in text
    assert "a start: cuts the log off here" in text
    assert "Verdict: damaged" in text
    assert max(len(line) for line in lines_left(child.before) if not line.startswith("rmqadmin:")) <= 80


def test_80_columns_say_what_was_not_looked_at(run: Rmqadmin, terminal: Terminal, tmp_path: Path) -> None:
    """A RocksDB store used to be called clean although all its queues and tables were unread."""
    root = str(without_timers(unpack("rocksdb", tmp_path)))
    child = terminal("store", "verify", root, columns=80)
    assert status(child) == 0
    assert "\r\nNot checked: consumequeue, config/consumerOffsets," in str(child.before)
    assert run("-o", "json", "store", "verify", root).document["summary"]["not_checked"][0] == "consumequeue"


def test_a_relative_path_and_a_home_directory(
    run: Rmqadmin, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.chdir(killed.parent)
    monkeypatch.setenv("HOME", str(killed.parent))
    for path in ("store", "store/", "~/store"):
        ran = run("-o", "json", "store", "verify", path, status=0)
        assert ran.document["summary"]["store"] == str(killed)


@pytest.mark.parametrize(("path", "words"), [("none", "no such directory"), (".", "holds no commitlog/")])
def test_what_is_no_store_is_an_error(
    run: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("store", "verify", path, status=2, err=words)
    assert "hint: " in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_an_error(run: Rmqadmin, tmp_path: Path) -> None:
    root = unpack("killed", tmp_path)
    (root / "commitlog" / f"{0:020d}").chmod(0)
    run("store", "verify", str(root), status=1, err="Permission denied")


def test_the_store_of_a_broker_that_runs_is_read_with_a_warning(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    server = start_standalone()
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config("VerifiedLive"))
        for _ in range(20):
            message = Message("VerifiedLive", b"live", tags="T", keys=["K"])
            admin.send_message(server.broker_addr, MessageQueue("VerifiedLive", "broker-a", 0), message)
    ran = run("-o", "json", "store", "verify", str(server.store_dir), "--all")
    assert f"a broker is running on this store (process {server.pid})" in ran.err
    assert ran.document["summary"]["records"] >= 20
    assert "in-use" in {item["kind"] for item in ran.items}
    assert ran.status == 0, ran.items


def test_what_a_broker_writes_while_its_store_is_read_is_no_damage(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    server, is_enough = start_standalone(), threading.Event()

    def send() -> None:
        message, queue = Message("VerifiedLive", bytes(20_000)), MessageQueue("VerifiedLive", "broker-a", 0)
        with AdminClient(server.namesrv_addr) as producer:
            while not is_enough.is_set():
                producer.send_message(server.broker_addr, queue, message)

    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config("VerifiedLive"))
    with ThreadPoolExecutor() as pool:
        sending = [pool.submit(send) for _ in range(4)]
        try:
            for _ in range(5):
                run("store", "verify", str(server.store_dir), status=0)
        finally:
            is_enough.set()
        for each in sending:
            each.result()
