"""Processes of a running Spark, and a driver of replays that is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.rmqreplay.replay_lab import OnSend, Send, kill_once
from tests.support.connection_owner import inode_of_peer, inodes_of


def python_workers(root_pid: int) -> list[int]:
    """The Python workers below a process: children that a pyspark daemon has forked."""
    table = _processes()
    daemons = [pid for pid in _below(root_pid, table) if "pyspark.daemon" in table[pid][1]]
    return [pid for pid in daemons if table[pid][0] in daemons]


def sending_executor(root_pid: int, send: Send) -> list[int]:
    """The executor below a process whose Python worker made the send. Executors start one after the other and some may
    have no task, so that nothing is lost with them."""
    table = _processes()
    inode = inode_of_peer(send.client)
    return [pid for pid in _executors(root_pid, table) if any(inode in inodes_of(each) for each in _below(pid, table))]


def executors(root_pid: int) -> list[int]:
    """The executors below a process."""
    return _executors(root_pid, _processes())


def passed_by_a_dying_executor(marker: str, at: int, number: int) -> int:
    """For rows in a task: the number as it is. The executor whose task first has the number ``at`` is killed there, and
    the file ``marker`` is made."""
    if number == at:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            table = _processes()
            executor, _ = table[table[os.getpid()][0]]  # the parent of the daemon that forked this worker
            os.kill(executor, signal.SIGKILL)
    return number


def _executors(root_pid: int, table: dict[int, tuple[int, str]]) -> list[int]:
    return [
        pid
        for pid in _below(root_pid, table)
        if "CoarseGrainedExecutorBackend" in table[pid][1] and table[pid][1].split("\0")[0].endswith("java")
    ]


def _below(root_pid: int, table: dict[int, tuple[int, str]]) -> list[int]:
    found, todo = [], [root_pid]
    while todo:
        parent = todo.pop()
        children = [pid for pid, (of, _) in table.items() if of == parent]
        found += children
        todo += children
    return found


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and command line by pid, of every process of the machine. Names and arguments of others need not be
    UTF-8."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_bytes()
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
                found[int(entry)] = int(stat.rpartition(b")")[2].split()[1]), os.fsdecode(command)
    return found


def kill_amid_all(find: Callable[[Send], list[int]], topics: set[str], *, at_send: int) -> OnSend:
    """For ``Proxy.on_send``: kills the processes that ``find`` returns, once every topic has had ``at_send`` sends.
    Topics that get there first wait for the others, so that no replay has finished by then."""
    reached: set[str] = set()
    kill = kill_once(find, at_send=at_send)
    killed = threading.Event()

    def on_send(send: Send) -> None:
        if send.topic in topics and send.count >= at_send:
            reached.add(send.topic)
            if reached == topics:
                kill(send)
                killed.set()
            killed.wait(60)

    return on_send


class Driver:
    """A program of this folder with an argument, as JSON, in a process that will be killed."""

    def __init__(self, program: str, argument: object):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(program)), json.dumps(argument)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_its_end(self) -> None:
        """Waits for the process, which must end by the kill."""
        _, errors = self.process.communicate(timeout=900)
        assert self.process.returncode == -signal.SIGKILL, errors[-4000:]

    def kill(self, _: Send) -> list[int]:
        return [self.process.pid]
