"""How long a command takes in ``rmqadmin shell``, compared with the same command as a separate process, from start to
end, on our broker. The cost of a line is how much longer a script of many lines takes than one of a single line, per
line, so the shell's start does not count."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import seed
from bench.harness.rows import SMALL
from bench.harness.servers import compiled, ours

LINES = (
    "topicList",
    f"topicStatus -t {SMALL}",
    "clusterList",
    "consumerProgress",
    "getBrokerConfig -c DefaultCluster",
    f"updateTopic -c DefaultCluster -t {SMALL}",
)
A_LINE_MS = 10
LINES_A_RUN = 40


def take(extent: Extent) -> list[Figure]:
    with ours() as broker, tempfile.TemporaryDirectory() as folder:
        seed(broker)
        env = {**compiled(Path(folder)), "NAMESRV_ADDR": broker.namesrv_addr}
        program = [sys.executable, "-m", "rmqadmin"]
        run_s([*program, "shell"], "\n".join(LINES), env)  # compiles
        found = []
        for line in LINES:
            in_shell_s, alone_s = [], []
            for _ in range(extent.commands):
                one_s = run_s([*program, "shell"], line, env)
                many_s = run_s([*program, "shell"], "\n".join([line] * (LINES_A_RUN + 1)), env)
                in_shell_s.append((many_s - one_s) / LINES_A_RUN)
                alone_s.append(run_s([*program, *line.split()], "", env))
            ms, beside_ms = (1000 * statistics.median(each) for each in (in_shell_s, alone_s))
            name = f"rmqadmin shell, a line of {line.split()[0]}, wall"
            found.append(Figure(name, "ms", ms, beside_ms, "the command as a process", at_most=A_LINE_MS))
        return found


def run_s(command: Sequence[str], script: str, env: Mapping[str, str]) -> float:
    """Runs a command with ``script`` as its input and returns the seconds. RuntimeError if it fails."""
    begin_s = time.monotonic()
    done = subprocess.run(command, input=script, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)
    taken_s = time.monotonic() - begin_s
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr[-500:]}")
    return taken_s
