"""``python -m bench.dashboard``: what a refresh of the dashboard costs on a large cluster - processor time, and how
long the keys ever had to wait. Beside it, in the same run, the same screens on a small one."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rmqclient.admin import AdminClient
from rmqproto.bodies import SubscriptionGroupConfig, TopicConfig
from tests.support import servers

INTERVAL_S = 2.0
"""The dashboard's own default."""

TICK_S = 0.002
SIZE = (160, 50)
SCREENS = {"topics": "t", "groups": "g"}


@dataclass(frozen=True)
class Figure:
    """``cpu_s`` is the whole program's, a refresh; ``blocked_s`` the longest time the event loop was held."""

    screen: str
    rows: int
    cpu_s: float
    blocked_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description="What a refresh of the dashboard costs.")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--refreshes", type=int, default=5)
    options = parser.parse_args()
    figures: list[Figure] = []
    for topics, groups in ((10, 10), (options.topics, options.groups)):
        with (
            tempfile.TemporaryDirectory(prefix="rmq-bench-dashboard-") as folder,
            servers.standalone(Path(folder)) as server,
        ):
            fill(server, topics, options.queues, groups)
            figures += [asyncio.run(measure(server.namesrv_addr, screen, options.refreshes)) for screen in SCREENS]
    print(f"{'screen':10} {'rows':>6} {'CPU ms a refresh':>17} {'longest wait ms':>16}")
    for figure in figures:
        print(f"{figure.screen:10} {figure.rows:6} {figure.cpu_s * 1000:17.0f} {figure.blocked_s * 1000:16.0f}")


def fill(server: servers.Server, topics: int, queues: int, groups: int) -> None:
    """Topics, and groups with an offset in one queue each."""
    with AdminClient(server.namesrv_addr) as admin:
        for number in range(topics):
            name = f"BenchTopic{number}"
            config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            admin.create_topic(server.broker_addr, config)
        for number in range(groups):
            group = f"BenchGroup{number}"
            admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
            admin.update_consumer_offset(server.broker_addr, group, f"BenchTopic{number % topics}", 0, 0)


async def measure(namesrv_addr: str, screen: str, refreshes: int) -> Figure:
    from rmqadmin.tui.app import DashboardApp
    from rmqadmin.tui.client import DashboardClient
    from rmqadmin.tui.settings import Settings
    from rmqadmin.tui.widgets.row_table import RowTable

    def make_client(*, read_only: bool) -> DashboardClient:
        return DashboardClient(namesrv_addr, None, 5.0, read_only=read_only)

    app = DashboardApp(Settings(make_client, lambda: time.time_ns() // 1_000_000, interval_s=INTERVAL_S))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(SCREENS[screen])
        while not (tables := list(app.screen.query(RowTable))) or not tables[0].row_count:
            await asyncio.sleep(0.05)
        await asyncio.sleep(2 * INTERVAL_S)  # names come first, numbers in the rounds after
        before_s, longest_s = time.process_time(), 0.0
        ends_s = time.monotonic() + refreshes * INTERVAL_S
        while (now_s := time.monotonic()) < ends_s:
            await asyncio.sleep(TICK_S)
            longest_s = max(longest_s, time.monotonic() - now_s - TICK_S)
        cpu_s = (time.process_time() - before_s) / refreshes
        return Figure(screen, tables[0].row_count, cpu_s, longest_s)


if __name__ == "__main__":
    main()
