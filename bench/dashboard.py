"""``python -m bench.dashboard``: what the dashboard costs on large clusters, in a few minutes. It measures the first
frame of the program, over that of a Textual program that only says hello; the first frame of every screen; the keys on
every screen; rest; and messages with the largest bodies. Each row is printed when it has been measured.

All times are processor time, which the other work of the machine changes little, so that the clusters are measured at
once. Everything runs in a real pseudo-terminal, so drawing counts too.
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
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from textual.widgets import Input

from bench.harness.servers import compiled
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui import app as app_module
from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.app_base import collect_at_rest
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
START_MAX_S = 60.0
"""A program that has not shown its first frame by then never will."""

QUIET_S, QUIET_MAX_S = 0.3, 2.0
"""A screen counts as open when the dashboard has been quiet for QUIET_S: it has its first frame, the names, and the
numbers of the rows in view. It asks again after two seconds."""
KEY_QUIET_S, KEY_QUIET_MAX_S = 0.06, 0.25
"""The same for a key that opens nothing."""
QUIET_RATIO_MAX = 0.05
"""How much of a core a quiet dashboard may use."""


def place(text: str) -> list[str]:
    """The keys that go to a place by its name."""
    return ["colon", *("space" if one == " " else one for one in text), "enter"]


SCREENS = {
    "pulse": ["h"],
    "topics": ["t"],
    "topics by messages": ["greater_than_sign"] * 3,
    "queues": ["enter"],
    "messages": ["m"],
    "plot": ["escape", "escape", "l"],
    "groups": ["g"],
    "group": ["enter"],
    "members": ["2"],
    "rebalances": ["3"],
    "dead letters": ["d"],
    "search": ["s"],
    "brokers": ["c"],
    "broker": ["enter"],
    "replicas": ["5"],
    "clients": place("clients"),
    "users": place("users"),
}
"""Screens and their keys. Each is opened from the one before it. If topics are sorted by numbers, those out of view
count too."""

KEYS = [
    "tab", "down", "pagedown", "end", "pageup", "home", "greater_than_sign", "o", "z", "z", "slash", "1", "escape",
    "question_mark", "escape", "colon", "t", "escape", "r",
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
FRAME_WORD = "Pulse"


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
    parser.add_argument("--topics", type=int, nargs="+", default=[1000, 10_000], help="of each cluster")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument(
        "--groups", type=int, default=200, help="of a cluster with as many topics; otherwise one a topic"
    )
    parser.add_argument("--refreshes", type=int, default=1, help="that are looked at on each screen at rest")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--only-bodies", action="store_true")
    parser.add_argument("--only-screens", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-dashboard-state-") as folder:
        os.environ["XDG_STATE_HOME"] = folder  # leaves the user's own dashboard as it was
        if not options.only_bodies:
            print_clusters(options, compiled(Path(folder)))
        if not options.only_screens:
            print_bodies()


def print_clusters(options: argparse.Namespace, environment: dict[str, str]) -> None:
    with ExitStack() as stack:
        addrs = {}
        for topics in options.topics:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-dashboard-"))
            server = stack.enter_context(servers.standalone(Path(folder)))
            fill(server, topics, options.queues, min(topics, options.groups))
            addrs[topics] = server.namesrv_addr
        if not options.only_screens:
            print_first_frames(addrs, options.starts, environment)
        print_screens(addrs, options.refreshes)


def print_screens(addrs: Mapping[int, str], refreshes: int) -> None:
    print("Processor time: ms of the loop's thread, at rest of the whole process")
    print(
        f"{'topics':>8}  {'screen':20} {'rows':>6} {'first frame':>12} {'opening':>8} {'refresh':>8} {'a key':>6}",
        end="",
    )
    print(f"  {'':18} {'at rest':>8}", flush=True)
    rests: dict[int, list[float]] = {topics: [] for topics in addrs}
    measures = {topics: partial(measure_screens, addr, refreshes) for topics, addr in addrs.items()}
    for topics, (screen, rows, frame_s, opening_s, refresh_s, key_s, key, rest) in measured_in_terminals(measures):
        print(
            f"{topics:8,}  {screen:20} {rows:6} {in_ms(frame_s):>12} {in_ms(opening_s):>8} {in_ms(refresh_s):>8}",
            end="",
        )
        print(f" {in_ms(key_s):>6}  {key:18} {rest:8.1%}", flush=True)
        rests[topics].append(rest)
    for topics, all_of in rests.items():
        print(f"{topics:8,}  {'at rest, all screens':20} {statistics.mean(all_of):65.1%}", flush=True)


def print_bodies() -> None:
    print(f"\n{'body':24}", *(f"{title:>9}" for title in BODY_KEYS), "  longest hold-up of the loop, ms", flush=True)
    for _, (name, blocks) in measured_in_terminals({"bodies": measure_bodies}):
        print(f"{name:24}", *(f"{in_ms(block_s):>9}" for block_s in blocks), flush=True)


def in_ms(cpu_s: float) -> str:
    return f"{cpu_s * 1000:.0f}"


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


def first_frame_s(argv: list[str], word: str, environment: dict[str, str]) -> float:
    """Processor time from the start of a program to a word on its screen."""

    def child() -> None:
        os.execve(argv[0], argv, {**environment, **TERMINAL})

    pid, terminal = in_terminal(child)
    shown, deadline_s = b"", time.monotonic() + START_MAX_S
    with selectors.DefaultSelector() as waiting:
        waiting.register(terminal, selectors.EVENT_READ)
        while word.encode() not in shown:
            if not waiting.select(deadline_s - time.monotonic()) or not (read := read_terminal(terminal)):
                os.kill(pid, signal.SIGKILL)
                sys.exit(f"{' '.join(argv[1:])} did not show {word}: {shown.decode(errors='replace')}")
            shown += read
    os.kill(pid, signal.SIGKILL)
    usage = os.wait4(pid, 0)[2]
    os.close(terminal)
    return usage.ru_utime + usage.ru_stime


def print_first_frames(addrs: Mapping[int, str], starts: int, environment: dict[str, str]) -> None:
    """Measures all programs in turns, so that a busy moment of the machine hits all. The first start of each does not
    count, because it may compile modules."""
    tui = [sys.executable, "-m", "rmqadmin", "tui", "-n"]
    programs = {
        "hello in Textual": ([sys.executable, "-c", HELLO], HELLO_WORD),
        "tui, no server": ([*tui, "127.0.0.1:1"], FRAME_WORD),
        **{f"tui, {topics:,} topics": ([*tui, addr], FRAME_WORD) for topics, addr in addrs.items()},
    }
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(1 + starts):
        for name, (argv, word) in programs.items():
            found[name].append(first_frame_s(argv, word, environment))
    print(f"{'first frame':20} {'CPU ms':>8} {'over hello':>11}   (medians of {starts} starts)")
    medians = {name: statistics.median(times[1:]) for name, times in found.items()}
    for name, cpu_s in medians.items():
        print(f"{name:20} {in_ms(cpu_s):>8} {in_ms(cpu_s - medians['hello in Textual']):>11}", flush=True)
    print()


# --- the screens -----------------------------------------------------------------------------------------------------


class MeasuringSelector(selectors.DefaultSelector):
    """Measures what the loop does between two selects, which is how long a key may have to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.forget()

    def forget(self) -> None:
        self._began_s, self.block_s = time.thread_time(), 0.0

    block_s: float
    """The longest time since ``forget`` that the loop did something else, in seconds of its thread."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.block_s = max(self.block_s, time.thread_time() - self._began_s)
        found = super().select(timeout)
        self._began_s = time.thread_time()
        return found


Told = list[Any]
"""A row of measurements."""

Measure = Callable[[MeasuringSelector, Callable[[Told], None]], Coroutine[Any, Any, None]]
"""Tells each row when it has been measured."""


def measured_in_terminals(measures: Mapping[Any, Measure]) -> Iterator[tuple[Any, Told]]:
    """Runs dashboards that measure themselves, all at once, each in its own process and terminal. Gives each row of
    each as soon as it is told, with the name of the measure."""
    shown_last = b""
    with selectors.DefaultSelector() as waiting:  # an unread terminal would block its program
        pids = {}
        for name, measure in measures.items():
            pids[name], terminal, reading = started(measure)
            waiting.register(terminal, selectors.EVENT_READ, None)
            waiting.register(reading, selectors.EVENT_READ, (name, bytearray()))
        told_names = set()
        while waiting.get_map():
            for ready, _ in waiting.select():
                read = read_terminal(ready.fd)
                if not read:
                    waiting.unregister(ready.fd)
                    os.close(ready.fd)
                elif ready.data is None:
                    shown_last = read
                else:
                    name, rows = ready.data
                    rows += read
                    while b"\n" in rows:
                        row, _, rest = bytes(rows).partition(b"\n")
                        rows[:] = rest
                        told_names.add(name)
                        yield name, json.loads(row)
    for name, pid in pids.items():
        status = os.waitpid(pid, 0)[1]
        if status or name not in told_names:
            sys.exit(f"a dashboard ended before it was measured: {shown_last.decode(errors='replace')}")


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # on Linux: the other side is closed
        return b""


def started(measure: Measure) -> tuple[int, int, int]:
    """Starts a dashboard. Returns its process id, the terminal's other side, and the pipe with its rows."""
    reading, writing = os.pipe()

    def child() -> None:
        collect_at_rest()
        selector = MeasuringSelector()
        with os.fdopen(writing, "w") as pipe:

            def tell(row: Told) -> None:
                print(json.dumps(row), file=pipe, flush=True)

            with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
                runner.run(measure(selector, tell))

    pid, terminal = in_terminal(child)
    os.close(writing)
    return pid, terminal, reading


class MeasuredApp(DashboardApp):
    """Notes when the first frame of another screen has been written to the terminal."""

    # Textual would look for them beside this file.
    CSS_PATH = [Path(app_module.__file__).with_name(str(name)) for name in DashboardApp.CSS_PATH]

    def expect_frame(self) -> None:
        self._before: Any = self.screen
        self._began_s, self.frame_s = time.thread_time(), 0.0

    frame_s = 0.0
    """How long the loop's thread worked until then; 0 if there is no such frame yet."""

    def post_display_hook(self) -> None:
        if getattr(self, "_before", None) not in (None, self.screen):
            self._before, self.frame_s = None, time.thread_time() - self._began_s


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


async def measure_screens(
    namesrv_addr: str, refreshes: int, selector: MeasuringSelector, tell: Callable[[Told], None]
) -> None:
    """Tells for each screen: its name and rows; the time from the key to its first frame; how long opening it holds up
    the loop at most, and a refresh, and the worst key, and that key; how much of a core it takes at rest."""
    app = dashboard(namesrv_addr)

    async def pressed(pilot: Any) -> None:
        await asyncio.sleep(STARTING_S)
        for screen, (*before, last) in SCREENS.items():
            if before:
                await pilot.press(*before)
                await quiet(KEY_QUIET_S, KEY_QUIET_MAX_S)
            selector.forget()
            app.expect_frame()
            await pilot.press(last)
            await quiet(QUIET_S, QUIET_MAX_S)
            opening_s = selector.block_s
            frame_s = app.frame_s or opening_s  # the screen existed already
            selector.forget()
            cpu_before_s = time.process_time()
            await asyncio.sleep(refreshes * INTERVAL_S)
            rest = (time.process_time() - cpu_before_s) / (refreshes * INTERVAL_S)
            refresh_s = selector.block_s
            rows = max((table.all_count for table in app.screen.query(RowTable)), default=0)
            tell([screen, rows, frame_s, opening_s, refresh_s, *await worst_key(pilot, selector, app), rest])
        app.exit()

    await app.run_async(auto_pilot=pressed)


async def worst_key(pilot: Any, selector: MeasuringSelector, app: MeasuredApp) -> tuple[float, str]:
    """The longest time that any of KEYS holds up the loop, and that key."""
    found = []
    for key in KEYS:
        if isinstance(app.focused, Input) and key not in ("escape", "tab", "1", "t"):
            continue  # the key would be typed into the input
        selector.forget()
        await pilot.press(key)
        await quiet(KEY_QUIET_S, KEY_QUIET_MAX_S)
        found.append((selector.block_s, key))
    return max(found)


async def measure_bodies(selector: MeasuringSelector, tell: Callable[[Told], None]) -> None:
    """Measures messages with large bodies, without a broker, because the tabs of a body need none."""
    app = dashboard("127.0.0.1:1")

    async def pressed(pilot: Any) -> None:
        await asyncio.sleep(STARTING_S)
        for name, body in large_bodies().items():
            blocks = []
            for key in BODY_KEYS.values():
                selector.forget()
                await (pilot.press(key) if key else app.push_screen(MessageScreen(message_of(body))))
                await quiet(QUIET_S, BODY_QUIET_MAX_S)
                blocks.append(selector.block_s)
            tell([name, blocks])
            await pilot.press("escape")
        app.exit()

    await app.run_async(auto_pilot=pressed)


def message_of(body: bytes) -> FoundMessage:
    host, now_ms = host_bytes("127.0.0.1", 10911), time.time_ns() // 1_000_000
    stored = StoredMessage(
        len(body), body_crc(body), 0, 0, 0, 0, 0, now_ms, host, now_ms, host, 0, 0, body, "Bench", b""
    )
    return FoundMessage(stored, "broker-a", "127.0.0.1:10911", {})


if __name__ == "__main__":
    main()
