"""The processor time of one ``rmqadmin topicList``, beside Apache's ``mqadmin topicList``. Both ask the same
nameserver, Apache's own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.extent import Extent
from bench.figure import Figure
from bench.measure import seed
from bench.rows import LARGE, SMALL
from bench.servers import apache, compiled, ours
from tests.interop.apache import java_command

OF_MQADMIN = 0.1
MQADMIN_JVM = ("-server", "-Xms1g", "-Xmx1g", "-Xmn256m", "-XX:MetaspaceSize=128m", "-XX:MaxMetaspaceSize=128m")
"""As Apache's own script, ``bin/tools.sh``, starts it."""


def take(extent: Extent) -> list[Figure]:
    with apache() if extent.with_apache else ours() as broker, tempfile.TemporaryDirectory() as folder:
        seed(broker)
        commands = {"ours": [sys.executable, "-m", "rmqadmin", "topicList", "-n", broker.namesrv_addr]}
        if extent.with_apache:
            arguments = ("org.apache.rocketmq.tools.command.MQAdminStartup", "topicList", "-n", broker.namesrv_addr)
            commands["mqadmin"] = java_command(Path(folder), *arguments, jvm=MQADMIN_JVM, logback="tools")
        env = compiled(Path(folder))
        child_cpu_s(commands["ours"], env)  # compiles
        cpu_s: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(extent.commands):
            for name, command in commands.items():
                cpu_s[name].append(child_cpu_s(command, env))
    medians_ms = {name: 1000 * statistics.median(found) for name, found in cpu_s.items()}
    beside = medians_ms.get("mqadmin")
    return [
        Figure("rmqadmin topicList, CPU", "ms", medians_ms["ours"], beside, "mqadmin topicList",
               ratio_at_most=OF_MQADMIN)
    ]  # fmt: skip


def child_cpu_s(command: Sequence[str], env: Mapping[str, str]) -> float:
    """RuntimeError if it fails or does not list the topics that are there."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    if process.returncode or SMALL not in text or LARGE not in text:
        raise RuntimeError(f"{' '.join(command[-3:])}: exit status {process.returncode}, printed {text!r}")
    return usage.ru_utime + usage.ru_stime
