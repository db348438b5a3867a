"""Runs the command line inside the test's process, against the shared server."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pexpect
import pytest

from rmqadmin.cli import program
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from tests.support.clock import in_zone
from tests.support.servers import Server, topic_config

GOLDEN = Path(__file__).parent.parent / "golden" / "mqadmin"
CLUSTER = "DefaultCluster"
TERMINAL_TIMEOUT_S = 30  # far longer than any step takes, even on a busy machine


@dataclass(frozen=True)
class Ran:
    """The outcome of one command line."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.out))

    @property
    def items(self) -> list[dict[str, Any]]:
        return list(self.document["items"])


def filled(server: Server, topic: str, queue_count: int, message_count: int) -> str:
    """A topic with so many messages in each queue: m0, m1, ..., with the tags T0, T1, ... Returns its name."""
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, queue_count))
        for at in range(queue_count * message_count):
            queue = MessageQueue(topic, "broker-a", at % queue_count)
            admin.send_message(server.broker_addr, queue, Message(topic, b"m%d" % at, tags=f"T{at}"))
    return topic


Rmqadmin = Callable[..., Ran]
Written = Callable[..., bytes]


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of the golden texts."""
    yield from in_zone(monkeypatch, "UTC")


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without settings for the program, and without anybody's files."""
    for name in [name for name in os.environ if name.startswith("RMQADMIN_")] + ["NAMESRV_ADDR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for kind in ("config", "state", "cache"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))


def run_line(
    run: Callable[[Any], int],
    line: Any,
    captured: Any,
    *,
    status: int | None = None,
    out: str | None = None,
    err: str = "",
) -> Ran:
    """How ``run`` ends with the line, and what is written meanwhile. AssertionError unless it ends with ``status`` and
    writes just ``out``, where these are given, and has the words ``err`` in its standard error."""
    captured.readouterr()
    ended = run(line)
    said = captured.readouterr()
    assert status in (None, ended), said
    assert out in (None, said.out), said
    assert err in said.err
    return Ran(ended, said.out, said.err)


@pytest.fixture
def run(bare_environment: None, capsys: pytest.CaptureFixture[str]) -> Rmqadmin:
    """``run("topicList", status=0, out="", err="WARNING")``: runs one command line, in an environment without settings.
    It must end and speak so (``run_line``)."""
    return lambda *args, **wanted: run_line(program.run, args, capsys, **wanted)


@pytest.fixture
def rmqadmin(run: Rmqadmin, server: Server, monkeypatch: pytest.MonkeyPatch) -> Rmqadmin:
    """Like ``run``, with the shared server as name server."""
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)
    return run


@pytest.fixture
def written(rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> Written:
    """``written("msg", "get", ID, "--body-only")``: the bytes that a command line writes. The command must succeed."""

    def run_one(*args: str) -> bytes:
        with monkeypatch.context() as patch:
            out = io.TextIOWrapper(io.BytesIO(), write_through=True)
            patch.setattr(sys, "stdout", out)
            assert rmqadmin(*args).status == 0
        return out.detach().getvalue()  # type: ignore[no-any-return, attr-defined]

    return run_one


Terminal = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def terminal(server: Server, tmp_path: Path) -> Iterator[Terminal]:
    """``terminal("topicList", columns=40)``: one command line in a pty, with the settings and contexts of ``run``."""
    spawned: list[pexpect.spawn[str]] = []

    def spawn(*args: str, columns: int = 100, env: Mapping[str, str] = {}) -> pexpect.spawn[str]:
        environment = {
            "PATH": "/usr/bin:/bin", "TERM": "xterm", "NAMESRV_ADDR": server.namesrv_addr, "NO_COLOR": "1",
            "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": str(columns),
            "RMQADMIN_PAGER": "cat", **env,  # lists of the shared server exceed any screen
        }  # fmt: skip
        child = pexpect.spawn(
            sys.executable, ["-m", "rmqadmin", *args], env=environment, dimensions=(40, columns),
            timeout=TERMINAL_TIMEOUT_S, encoding="utf-8", cwd=str(Path(__file__).parent.parent.parent), use_poll=True,
        )  # fmt: skip
        spawned.append(child)
        return child

    yield spawn
    for child in spawned:
        child.close(force=True)


def lines_left(text: str | None) -> list[str]:
    """The lines that a terminal shows, without the progress that was erased. On a busy machine there is some."""
    return re.sub(r"[^\n]*\r\x1b\[K", "", text or "").replace("\r", "").splitlines()


def status(child: pexpect.spawn[str]) -> int:
    """The exit status of a program in a terminal. All its output is then in ``child.before``."""
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus is not None, f"ended by signal {child.signalstatus}"
    return child.exitstatus


def golden(command: str, case: str) -> str:
    """The text that mqadmin printed, without the two lines about the call."""
    return (GOLDEN / command / f"{case}.txt").read_text().split("\n", 2)[2]
