"""What one run of ``rmqadmin`` costs: its version, a help text, a list of topics, and a list of 10,000 topics.
``topicList`` is compared with Apache's ``mqadmin topicList`` on the same nameserver, which is Apache's.

Measured are the time from the process's start to its end, and its processor time. The commands take turns, and medians
count.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import seed
from bench.harness.rows import LARGE, SMALL
from bench.harness.servers import apache, compiled, ours
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from tests.interop.apache import java_command

VERSION_MS, LIST_MS, LONG_LIST_MS = 30, 150, 1000
OF_MQADMIN = 1 / 15
OF_HELP = 1.1
"""A command's help must be no slower than the list of all commands, apart from noise."""

MANY_TOPICS = 10_000
TOPICS_A_REQUEST = 1000
MQADMIN_JVM = ("-server", "-Xms1g", "-Xmx1g", "-Xmn256m", "-XX:MetaspaceSize=128m", "-XX:MaxMetaspaceSize=128m")
"""The options of Apache's own script, ``bin/tools.sh``."""

PROGRAM = [sys.executable, str(Path(sys.executable).with_name("rmqadmin"))]
"""The console script that users start: ``-m`` would also load ``runpy``."""

BARE = [sys.executable, "-c", "pass"]
BARE_NAME = "python -c pass"
"""The cost of the interpreter alone."""
HELPS = ("--help", "topicStatus --help", "spark-replay --help")
MQADMIN, LIST = "mqadmin topicList", "topicList"


@dataclass(frozen=True)
class Run:
    wall_ms: float
    cpu_ms: float


def take(extent: Extent) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        env = compiled(Path(folder))
        with apache() if extent.with_apache else ours() as broker:
            seed(broker)
            commands = {words: [*PROGRAM, *words.split()] for words in ("--version", *HELPS)}
            commands[BARE_NAME] = BARE
            commands[LIST] = [*PROGRAM, LIST, "-n", broker.namesrv_addr]
            if extent.with_apache:
                arguments = ("org.apache.rocketmq.tools.command.MQAdminStartup", LIST, "-n", broker.namesrv_addr)
                commands[MQADMIN] = java_command(Path(folder), *arguments, jvm=MQADMIN_JVM, logback="tools")
            found = medians(commands, extent.commands, env, {LIST: (SMALL, LARGE), MQADMIN: (SMALL, LARGE)})
        long_list = of_many_topics(extent.commands, env)
    theirs = found.get(MQADMIN)
    wall, cpu = (None, None) if theirs is None else (theirs.wall_ms, theirs.cpu_ms)
    return [
        Figure("rmqadmin --version, wall", "ms", found["--version"].wall_ms, found[BARE_NAME].wall_ms, BARE_NAME,
               at_most=VERSION_MS),
        *(
            Figure(f"rmqadmin {words}, CPU", "ms", found[words].cpu_ms, found[HELPS[0]].cpu_ms, "--help",
                   ratio_at_most=OF_HELP)
            for words in HELPS[1:]
        ),
        Figure("rmqadmin topicList, wall", "ms", found[LIST].wall_ms, at_most=LIST_MS),
        Figure("rmqadmin topicList, wall", "ms", found[LIST].wall_ms, wall, MQADMIN, ratio_at_most=OF_MQADMIN),
        Figure("rmqadmin topicList, CPU", "ms", found[LIST].cpu_ms, cpu, MQADMIN, ratio_at_most=OF_MQADMIN),
        Figure(f"rmqadmin topicList of {MANY_TOPICS:,} topics, wall", "ms", long_list.wall_ms, at_most=LONG_LIST_MS),
    ]  # fmt: skip


def of_many_topics(rounds: int, env: Mapping[str, str]) -> Run:
    """Lists many topics of our own nameserver."""
    names = [f"Many-{number}" for number in range(MANY_TOPICS)]
    with ours() as broker, AdminClient(broker.namesrv_addr) as admin:
        for first in range(0, MANY_TOPICS, TOPICS_A_REQUEST):
            part = names[first : first + TOPICS_A_REQUEST]
            admin.create_topics(broker.address, [TopicConfig(topic_name=name) for name in part])
        commands = {LIST: [*PROGRAM, LIST, "-n", broker.namesrv_addr]}
        return medians(commands, rounds, env, {LIST: (names[0], names[-1])})[LIST]


def medians(
    commands: Mapping[str, Sequence[str]], rounds: int, env: Mapping[str, str], expected: Mapping[str, Sequence[str]]
) -> dict[str, Run]:
    """The median run of each command. RuntimeError if a command fails, or does not print what is expected."""
    for name, command in commands.items():
        if name != MQADMIN:
            once(command, env, expected.get(name, ()))  # compiles
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(once(command, env, expected.get(name, ())))
    return {
        name: Run(statistics.median(run.wall_ms for run in found), statistics.median(run.cpu_ms for run in found))
        for name, found in runs.items()
    }


def once(command: Sequence[str], env: Mapping[str, str], expected: Sequence[str], *, status: int = 0) -> Run:
    """Runs a command once. RuntimeError if its exit status is not ``status``, or if it does not print what is
    ``expected``."""
    with tempfile.TemporaryFile() as out:
        begin_s = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        _, ended, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - begin_s
        process.returncode = os.waitstatus_to_exitcode(ended)
        out.seek(0)
        text = out.read().decode()
    if process.returncode != status or not all(word in text for word in expected):
        raise RuntimeError(f"{' '.join(command[-3:])}: exit status {process.returncode}, printed {text[:500]!r}")
    return Run(wall_s * 1000, (usage.ru_utime + usage.ru_stime) * 1000)
