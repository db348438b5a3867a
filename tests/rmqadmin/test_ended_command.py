"""SIGTERM and SIGHUP while a command runs, as from ``timeout`` or a terminal that is closed: it says what it has done,
like after Ctrl-C, and its parent sees the signal."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server, until

broker = servers.of_module("--test-requests", "on")

OTHERS = first_is_quick([signal.SIGTERM, signal.SIGHUP])


def begun(directory: Path, *words: str, namesrv_addr: str = "127.0.0.1:1") -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RMQADMIN_")}
    environment |= {f"XDG_{kind}_HOME": str(directory) for kind in ("CONFIG", "STATE", "CACHE")}
    return subprocess.Popen(
        [sys.executable, *words],
        env={**environment, "NAMESRV_ADDR": namesrv_addr},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )


@pytest.mark.parametrize("number", OTHERS, ids=lambda number: number.name)
def test_a_change_that_is_ended_half_way_says_how_to_undo_it(
    broker: Server, tmp_path: Path, number: signal.Signals
) -> None:
    names = [f"{number.name}-{at}" for at in range(20)]
    with AdminClient(broker.namesrv_addr) as admin:
        admin.set_faults(broker.broker_addr, ["UPDATE_AND_CREATE_TOPIC:delay=200ms"])
        program = begun(tmp_path, "-m", "rmqadmin", "topic", "create", *names, namesrv_addr=broker.namesrv_addr)
        until(lambda: names[1] in admin.topic_list())  # so the command knows that the first was made
        program.send_signal(number)
        out, err = program.communicate()
        admin.set_faults(broker.broker_addr, [])
        assert names[-1] not in admin.topic_list()
    assert program.returncode == -number
    assert "interrupted before this" in out, err
    assert "to undo this: rmqadmin apply -f " in err
    last = json.loads((tmp_path / "rmqadmin" / "audit.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["outcome"]) == ("end", "partly failed")


LOST = """
import os, signal, sys, time
import rmqadmin.commands.about as about
class Part:
    def __del__(self): os.kill(os.getpid(), signal.{name})
def explain(call) -> about.Explanations:
    try:
        Part()
        while True: time.sleep(0.01)
    finally:
        print("put in order", flush=True)
about.explain = explain
sys.argv = ["rmqadmin", "explain"]
from rmqadmin.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, *OTHERS], ids=lambda number: number.name)
def test_a_signal_where_python_cannot_raise_does_not_tear_a_command(tmp_path: Path, number: signal.Signals) -> None:
    """As in a finalizer: Python prints a traceback there, and goes on."""
    program = begun(tmp_path, "-c", LOST.format(name=number.name))
    out, err = program.communicate()
    assert (program.returncode, out, err.strip()) == (130 if number == signal.SIGINT else -number, "put in order\n", "")


@pytest.mark.parametrize("line", ["! kill -TERM $PPID; sleep 0.3", "explain 1 | kill -TERM $PPID; sleep 0.3"])
def test_a_shell_that_is_ended_runs_no_further_line(tmp_path: Path, line: str) -> None:
    program = begun(tmp_path, "-m", "rmqadmin", "shell", "--keep-going", "-c", line, "-c", "! echo went on")
    out, _ = program.communicate()
    assert (program.returncode, "went on" in out) == (-signal.SIGTERM, False)


def test_a_command_that_is_to_ignore_hang_ups_does(broker: Server, tmp_path: Path) -> None:
    """As under nohup."""
    script = 'trap "" HUP; exec "$0" -m rmqadmin topicList --watch 0.1'
    program = subprocess.Popen(
        ["sh", "-c", script, sys.executable],
        env={**os.environ, "NAMESRV_ADDR": broker.namesrv_addr, "XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    program.stdout.readline()
    program.send_signal(signal.SIGHUP)
    lines = [program.stdout.readline() for _ in range(20)]
    program.send_signal(signal.SIGTERM)
    program.communicate()
    assert (program.returncode, all(lines)) == (-signal.SIGTERM, True)
