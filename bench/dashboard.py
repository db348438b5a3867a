"""``python -m bench.dashboard``: what the dashboard costs on small and large clusters, in about four minutes. It
measures the time to the first frame; how long a key that opens a screen waits for the screen's frame; the longest time
that the event loop, and so every key, had to wait; the processor time of a refresh; and messages with the largest
bodies.

The first frame is compared with that of a Textual program that only says hello, in the same run. Everything runs in a
real pseudo-terminal, so drawing counts too. Blocks are given in processor time of the loop's thread and in elapsed
time, which says little on a busy machine. Keys are pressed on one cluster after the other. Rest is measured on all
clusters at once, because the programs hardly use the processor then.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import pty
import random
import selectors
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from textual.widgets import Input

from bench.harness.servers import compiled
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui import app as app_module
from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.message import MessageScreen
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.message.record import StoredMessage, body_crc, host_bytes
from tests.support import servers

INTERVAL_S = 2.0
"""The dashboard's own default."""

SIZE = (160, 50)
TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
STARTING_S = 3.0
"""Long enough to load the modules of all screens."""

QUIET_S, QUIET_MAX_S = 0.3, 3.0
"""A screen counts as open when the dashboard has been quiet for QUIET_S: it has its first frame, the names, and the
numbers of the rows in view. It asks again after two seconds."""
KEY_QUIET_S, KEY_QUIET_MAX_S = 0.06, 0.5
"""The same for a key that opens nothing."""
QUIET_RATIO_MAX = 0.05
"""How much of a core a quiet dashboard may use."""

SCREENS = {
    "pulse": ["h"],
    "brokers": ["c"],
    "replicas": ["5"],
    "users": ["escape", "p"],
    "broker": ["escape", "enter"],
    "topics": ["t"],
    "topics by number": ["M"],
    "topics by rate": ["I"],
    "queues": ["enter"],
    "messages": ["m"],
    "plot": ["escape", "escape", "l"],
    "groups": ["g"],
    "group": ["enter"],
    "rebalance": ["3"],
    "dead letters": ["d"],
    "search": ["s"],
}
"""Screens and their keys. Each is opened from the one before it. If topics are sorted by numbers, those out of view
count too."""

KEYS = [
    "tab", "down", "end", "pageup", "home", "greater_than_sign", "o", "z", "z", "slash", "1", "escape", "question_mark",
    "escape", "colon", "t", "escape", "r",
]  # fmt: skip
"""Keys pressed on every open screen. They change nothing but the order of its rows."""

PORTION = 1000
"""How many topics one request creates."""

BODY_KEYS = {"opening": "", "text": "2", "wrapping": "f", "hex": "3", "JSON": "1"}
"""What is done with a message, in this order, and the key for it."""
BODY_QUIET_MAX_S = 6.0
"""How long a thread may take for a body of four million lines on a busy machine."""

HELLO_WORD = "Hello-from-Textual"
HELLO = f"""
from textual.app import App
from textual.widgets import Static
class Hello(App):
    def compose(self):
        yield Static("{HELLO_WORD}")
Hello().run()
"""
HEAD_WORD = " rmqadmin "


Block = list[float]
"""The longest time that the loop was blocked, in seconds: processor time and elapsed time."""


def large_bodies() -> dict[str, bytes]:
    """Bodies of the largest size that the JSON tree takes, and of the largest that brokers take."""
    json_size, body_size = 1024 * 1024, 4 * 1024 * 1024
    row = {"carrier": "UA", "tailnum": "N13936", "delay": None, "route": {"from": "EWR", "to": "IAH"}}
    rows, long_text = json.dumps(row), json.dumps({"text": "é" * 500})
    return {
        "JSON, numbers": b"[" + b"1," * (json_size // 2 - 2) + b"1]",
        "JSON, objects": f"[{','.join([rows] * (json_size // (len(rows) + 1)))}]".encode(),
        "JSON, long strings": f"[{','.join([long_text] * (json_size // (len(long_text) + 1)))}]".encode(),
        "JSON, one string": json.dumps({"text": "x" * (json_size - 20)}).encode(),
        "text, short lines": b"a line of text\n" * (body_size // 15),
        "text, empty lines": b"\n" * body_size,
        "text, one line": b"x" * body_size,
        "text, one line of 飞": "飞".encode() * (body_size // 3),
        "random bytes": random.Random(1).randbytes(body_size),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What the dashboard costs.")
    parser.add_argument("--topics", type=int, nargs="+", default=[25, 1000, 10_000], help="of each cluster")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument(
        "--groups", type=int, default=200, help="of a cluster with as many topics; otherwise one a topic"
    )
    parser.add_argument("--refreshes", type=int, default=2, help="that are looked at on each screen at rest")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--only-bodies", action="store_true")
    parser.add_argument("--only-screens", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-dashboard-state-") as folder:
        os.environ["XDG_STATE_HOME"] = folder  # leaves the user's own dashboard as it was
        if not (options.only_screens or options.only_bodies):
            print_first_frames(options.starts, compiled(Path(folder)))
        if not options.only_bodies:
            print_screens(options)
        if not options.only_screens:
            print_bodies()


def print_screens(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        addrs = []
        for topics in options.topics:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-dashboard-"))
            server = stack.enter_context(servers.standalone(Path(folder)))
            fill(server, topics, options.queues, min(topics, options.groups))
            addrs.append(server.namesrv_addr)
        at_rest = measured_in_terminals([partial(measure_rest, addr, options.refreshes) for addr in addrs])
        for topics, addr, rests in zip(options.topics, addrs, at_rest, strict=True):
            measured = measured_in_terminals([partial(measure_keys, addr)])[0]
            print_cluster(f"{topics:,} topics, {min(topics, options.groups)} groups", rests, measured)


def print_cluster(title: str, rests: list[Any], measured: list[Any]) -> None:
    print(f"{title}; times: ms on the processor (elapsed)\n")
    columns = ("to its frame", "opening", "refreshing", "a key")
    print(f"{'screen':16} {'rows':>6} {'at rest, % of a core':>21}", *(f"{title:>12}" for title in columns))
    for (screen, rows, cpu_s, refreshing), (_, frame, opening, (worst, key)) in zip(rests, measured, strict=True):
        times = (in_ms(block) for block in (frame, opening, refreshing, worst))
        print(f"{screen:16} {rows:6} {cpu_s / INTERVAL_S:21.1%}", *(f"{one:>12}" for one in times), key)
    mean_s = statistics.mean(cpu_s for _, _, cpu_s, _ in rests)
    print(f"{'all of them':16} {'':6} {mean_s / INTERVAL_S:21.1%}\n", flush=True)


def print_bodies() -> None:
    print(f"{'body':24}", *(f"{title:>12}" for title in BODY_KEYS))
    for name, blocks in measured_in_terminals([measure_bodies])[0]:
        print(f"{name:24}", *(f"{in_ms(block):>12}" for block in blocks))


def in_ms(block: Block) -> str:
    cpu_s, elapsed_s = block
    return f"{cpu_s * 1000:.0f} ({elapsed_s * 1000:.0f})"


def batched(names: Sequence[str], count: int) -> Iterator[Sequence[str]]:
    return (names[at : at + count] for at in range(0, len(names), count))


def fill(server: servers.Server, topics: int, queues: int, groups: int) -> None:
    """Creates topics, and groups with an offset in one queue each."""
    names = [f"BenchTopic{number}" for number in range(topics)]
    with AdminClient(server.namesrv_addr) as admin:
        for portion in batched(names, PORTION):
            admin.create_topics(
                server.broker_addr,
                [TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues) for name in portion],
            )
        for number in range(groups):
            group = f"BenchGroup{number}"
            admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
            admin.update_consumer_offset(server.broker_addr, group, f"BenchTopic{number % topics}", 0, 0)


# --- a terminal ------------------------------------------------------------------------------------------------------


def in_terminal(child: Callable[[], None]) -> tuple[int, int]:
    """Starts a process with its own terminal, which runs ``child`` and ends. Returns its id and the terminal's other
    side."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERMINAL)
        columns, rows = SIZE
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        child()
        os._exit(0)
    return pid, terminal


def first_frame_s(argv: list[str], word: str, environment: dict[str, str]) -> tuple[float, float]:
    """Elapsed and processor time from the start of a program to a word on its screen."""

    def child() -> None:
        os.execve(argv[0], argv, {**environment, **TERMINAL})

    started_s = time.perf_counter()
    pid, terminal = in_terminal(child)
    shown = b""
    while word.encode() not in shown:
        shown += os.read(terminal, 1 << 16)
    elapsed_s = time.perf_counter() - started_s
    os.kill(pid, signal.SIGKILL)
    usage = os.wait4(pid, 0)[2]
    os.close(terminal)
    return elapsed_s, usage.ru_utime + usage.ru_stime


def print_first_frames(starts: int, environment: dict[str, str]) -> None:
    """Measures both programs in turns, so that a busy moment of the machine hits both. The first start of each does not
    count, because it may compile modules."""
    programs = {
        "hello in Textual": ([sys.executable, "-c", HELLO], HELLO_WORD),
        "rmqadmin tui": ([sys.executable, "-m", "rmqadmin", "tui", "-n", "127.0.0.1:1"], HEAD_WORD),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(1 + starts):
        for name, (argv, word) in programs.items():
            found[name].append(first_frame_s(argv, word, environment))
    print(f"{'first frame':18} {'elapsed ms':>12} {'CPU ms':>8}   (medians of {starts} starts)")
    medians = {name: [statistics.median(times) for times in zip(*all[1:], strict=True)] for name, all in found.items()}
    for name, (elapsed_s, cpu_s) in medians.items():
        print(f"{name:18} {elapsed_s * 1000:12.0f} {cpu_s * 1000:8.0f}")
    hello, ours = medians.values()
    print(f"{'ratio':18} {ours[0] / hello[0]:12.2f} {ours[1] / hello[1]:8.2f}\n")


# --- the screens -----------------------------------------------------------------------------------------------------


class MeasuringSelector(selectors.DefaultSelector):
    """Measures what the loop does between two selects, which is how long a key may have to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.forget()

    def forget(self) -> None:
        self._cpu_s, self._elapsed_s = time.thread_time(), time.monotonic()
        self._longest_cpu_s = self._longest_s = 0.0

    def block(self) -> Block:
        """The longest block since ``forget``."""
        return [self._longest_cpu_s, self._longest_s]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._longest_cpu_s = max(self._longest_cpu_s, time.thread_time() - self._cpu_s)
        self._longest_s = max(self._longest_s, time.monotonic() - self._elapsed_s)
        found = super().select(timeout)
        self._cpu_s, self._elapsed_s = time.thread_time(), time.monotonic()
        return found


Measure = Callable[[MeasuringSelector], Coroutine[Any, Any, list[Any]]]


def measured_in_terminals(measures: Sequence[Measure]) -> list[list[Any]]:
    """Runs dashboards that measure themselves, all at once, each in its own process and terminal."""
    children = [started(measure) for measure in measures]
    shown_last = b""
    with selectors.DefaultSelector() as waiting:  # an unread terminal would block its program
        for _, terminal, _ in children:
            waiting.register(terminal, selectors.EVENT_READ)
        while waiting.get_map():
            for ready, _ in waiting.select():
                shown = read_terminal(ready.fd)
                shown_last = shown or shown_last
                if not shown:
                    waiting.unregister(ready.fd)
                    os.close(ready.fd)
    found = []
    for pid, _, reading in children:
        os.waitpid(pid, 0)
        with os.fdopen(reading) as pipe:
            told = pipe.read()
        if not told:
            sys.exit(f"a dashboard ended before it was measured: {shown_last.decode(errors='replace')}")
        found.append(json.loads(told))
    return found


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # on Linux: the other side is closed
        return b""


def started(measure: Measure) -> tuple[int, int, int]:
    """Starts a dashboard. Returns its process id, the terminal's other side, and the pipe with its measurements."""
    reading, writing = os.pipe()

    def child() -> None:
        selector = MeasuringSelector()
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            found = runner.run(measure(selector))
        if found:  # otherwise the dashboard failed and printed why
            with os.fdopen(writing, "w") as pipe:
                json.dump(found, pipe)

    pid, terminal = in_terminal(child)
    os.close(writing)
    return pid, terminal, reading


class MeasuredApp(DashboardApp):
    """Notes when the first frame of a new screen has been written to the terminal."""

    # Textual would look for them beside this file.
    CSS_PATH = [Path(app_module.__file__).with_name(str(name)) for name in DashboardApp.CSS_PATH]

    def expect_frame(self) -> None:
        """Waits from now on for the first frame of a screen other than the top one."""
        self._before: Any = self.screen
        self._began_s = time.thread_time(), time.monotonic()
        self.frame: Block | None = None

    def post_display_hook(self) -> None:
        if getattr(self, "_before", None) not in (None, self.screen):
            self._before = None
            cpu_s, elapsed_s = self._began_s
            self.frame = [time.thread_time() - cpu_s, time.monotonic() - elapsed_s]


def dashboard(namesrv_addr: str) -> MeasuredApp:
    def make_client(*, read_only: bool) -> DashboardClient:
        return DashboardClient(namesrv_addr, None, 5.0, read_only=read_only)

    return MeasuredApp(
        DashboardSettings(namesrv_addr, make_client, lambda: time.time_ns() // 1_000_000, interval_s=INTERVAL_S)
    )


async def quiet(quiet_s: float, max_s: float) -> None:
    """Waits until the dashboard has hardly used the processor for ``quiet_s``, but at most ``max_s``."""
    deadline_s = time.monotonic() + max_s
    while time.monotonic() < deadline_s:
        before_s = time.process_time()
        await asyncio.sleep(quiet_s)
        if time.process_time() - before_s < QUIET_RATIO_MAX * quiet_s:
            return


async def measure_rest(namesrv_addr: str, refreshes: int, selector: MeasuringSelector) -> list[Any]:
    """For each screen: its name and rows, the processor time of a refresh, and the longest block."""
    app = dashboard(namesrv_addr)
    figures = []

    async def pressed(pilot: Any) -> None:
        await asyncio.sleep(STARTING_S)
        for screen, keys in SCREENS.items():
            await pilot.press(*keys)
            await quiet(QUIET_S, QUIET_MAX_S)
            selector.forget()
            cpu_before_s = time.process_time()
            await asyncio.sleep(refreshes * INTERVAL_S)
            cpu_s = (time.process_time() - cpu_before_s) / refreshes
            rows = max((table.all_count for table in app.screen.query(RowTable)), default=0)
            figures.append((screen, rows, cpu_s, selector.block()))
        app.exit()

    await app.run_async(auto_pilot=pressed)
    return figures


async def measure_keys(namesrv_addr: str, selector: MeasuringSelector) -> list[Any]:
    """For each screen: its name, the time from the key to its first frame, the longest block until it is open, and the
    worst key."""
    app = dashboard(namesrv_addr)
    figures = []

    async def pressed(pilot: Any) -> None:
        await asyncio.sleep(STARTING_S)
        for screen, keys in SCREENS.items():
            *before, last = keys
            if before:
                await pilot.press(*before)
                await quiet(KEY_QUIET_S, KEY_QUIET_MAX_S)
            selector.forget()
            app.expect_frame()
            await pilot.press(last)
            await quiet(QUIET_S, QUIET_MAX_S)
            opening = selector.block()
            frame = app.frame or opening  # the screen existed already
            figures.append((screen, frame, opening, await worst_key(pilot, selector, app)))
        app.exit()

    await app.run_async(auto_pilot=pressed)
    return figures


async def worst_key(pilot: Any, selector: MeasuringSelector, app: DashboardApp) -> tuple[Block, str]:
    """The longest block that any of KEYS causes, and that key."""
    found = []
    for key in KEYS:
        if isinstance(app.focused, Input) and key not in ("escape", "tab", "1", "t"):
            continue  # the key would be typed into the input
        selector.forget()
        await pilot.press(key)
        await quiet(KEY_QUIET_S, KEY_QUIET_MAX_S)
        found.append((selector.block(), key))
    return max(found)


async def measure_bodies(selector: MeasuringSelector) -> list[Any]:
    """Measures messages with large bodies, without a broker, because the tabs of a body need none."""
    app = dashboard("127.0.0.1:1")
    found = []

    async def pressed(pilot: Any) -> None:
        await asyncio.sleep(STARTING_S)
        for name, body in large_bodies().items():
            blocks = []
            for key in BODY_KEYS.values():
                selector.forget()
                await (pilot.press(key) if key else app.push_screen(MessageScreen(message_of(body))))
                await quiet(QUIET_S, BODY_QUIET_MAX_S)
                blocks.append(selector.block())
            found.append((name, blocks))
            await pilot.press("escape")
        app.exit()

    await app.run_async(auto_pilot=pressed)
    return found


def message_of(body: bytes) -> FoundMessage:
    host, now_ms = host_bytes("127.0.0.1", 10911), time.time_ns() // 1_000_000
    stored = StoredMessage(
        len(body), body_crc(body), 0, 0, 0, 0, 0, now_ms, host, now_ms, host, 0, 0, body, "Bench", b""
    )
    return FoundMessage(stored, "broker-a", "127.0.0.1:10911", {})


if __name__ == "__main__":
    main()
