"""The table of 28 GET_BROKER_RUNTIME_INFO: the broker's state, as text under Apache's keys (``AdminBrokerProcessor``,
``StoreStatsService``, ``DefaultMessageStore.getRuntimeInfo``, 5.5.0).

This broker has no worker pools, so nothing waits in their queues: their sizes and waiting times are 0.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable

from rmqproto.codes import VERSION, version_name
from rmqproto.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rmqserver.broker.relays.delay import Delays
from rmqserver.broker.relays.timer_metrics import TimingCounts
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.broker.stats import BrokerStats
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.core import NAME as CORE
from rmqserver.store.message_store import MessageStore
from rmqserver.store.timers.timer_store import TimerStore

NO_TRANSIENT_POOL = 2**31 - 1

_POOLS = ("send", "pull", "litePull", "query", "ack")


class RuntimeInfo:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, timer_store: TimerStore, replicas: HaMaster,
        stats: BrokerStats, delay: Delays, timer_counts: TimingCounts, following_problem: Callable[[], str],
    ):  # fmt: skip
        """``following_problem`` says why a slave does not follow its master; empty if it does."""
        self._config = config
        self._replicas = replicas
        self._store = store
        self._stats = stats
        self._clock_ms = store.clock_ms
        self._delay = delay
        self._timers = timer_store
        self._timer_counts = timer_counts
        self._following_problem = following_problem

    def table(self) -> dict[str, str]:
        table = {
            "brokerActive": "true",
            "brokerVersionDesc": version_name(VERSION),
            "core": CORE,  # a key of our own
            "bootTimestamp": str(self._stats.boot_ms),
            "runtime": runtime_text(self._clock_ms() - self._stats.boot_ms),
            "startAcceptSendRequestTimeStamp": str(self._config.start_accept_send_request_ms),
            **self._puts(),
            **self._gets(),
            **self._log(),
            **self._disk(),
            **self._delays(),
            **self._pools(),
            **self._timer_keys(),
        }
        # Keys of our own: Apache's masters have no lease, and its slaves only log why they do not follow their master.
        if (left_ms := self._replicas.lease_left_ms) is not None:
            table["masterLeaseLeftMs"] = str(left_ms)
        if problem := self._following_problem():
            table["followingProblem"] = problem
        return table

    def _puts(self) -> dict[str, str]:
        stats = self._stats
        times = stats.put_times
        count = stats.put_count
        return {
            "putMessageTimesTotal": str(count or 1),  # as in Apache's broker, the divisor of the average: never 0
            "putMessageFailedTimes": str(stats.put_failed),
            "putMessageSizeTotal": str(stats.put_size_bytes),
            "putMessageAverageSize": repr(stats.put_size_bytes / (count or 1)),
            "putMessageEntireTimeMax": str(times.max_ms),
            "putMessageDistributeTime": times.distribution(),
            "putLatency99": f"{times.percentile_ms(99):.2f}",
            "putLatency999": f"{times.percentile_ms(99.9):.2f}",
            "putTps": _tps(stats.rates("put")),
            "msgPutTotalYesterdayMorning": str(stats.put_total_yesterday_morning),
            "msgPutTotalTodayMorning": str(stats.put_total_this_morning),
            "msgPutTotalTodayNow": str(stats.user_put_count),
        }

    def _gets(self) -> dict[str, str]:
        stats = self._stats
        found, missed = stats.rates("get_found"), stats.rates("get_miss")
        totals = [(hit or 0.0) + (miss or 0.0) for hit, miss in zip(found, missed, strict=True)]
        return {
            "getFoundTps": _tps(found),
            "getMissTps": _tps(missed),
            "getTotalTps": " ".join(repr(total) for total in totals),
            "getTransferredTps": _tps(stats.rates("transferred")),
            "getMessageEntireTimeMax": str(stats.get_time_max_ms),
            "msgGetTotalYesterdayMorning": str(stats.get_total_yesterday_morning),
            "msgGetTotalTodayMorning": str(stats.get_total_this_morning),
            "msgGetTotalTodayNow": str(stats.user_get_count),
        }

    def _log(self) -> dict[str, str]:
        store = self._store
        is_empty = store.written_offset == store.log.min_offset
        earliest_ms = None if is_empty else store.store_time(store.log.min_offset)
        table = {
            "commitLogMinOffset": str(store.log.min_offset),
            "commitLogMaxOffset": str(store.written_offset),
            "earliestMessageTimeStamp": str(-1 if earliest_ms is None else earliest_ms),
            "dispatchBehindBytes": str(store.dispatch_behind_bytes),
            "dispatchMaxBuffer": "0",
            "pageCacheLockTimeMills": "0",
            "remainTransientStoreBufferNumbs": str(NO_TRANSIENT_POOL),
            "remainHowManyDataToFlush": bytes_text(store.written_offset - store.flushed_offset),
        }
        if store.flags.refuses_writes:  # a key of our own: Apache's broker only logs it
            table["unwriteableReason"] = store.flags.reason
        return table

    def _disk(self) -> dict[str, str]:
        store = self._store
        log_path = store.directory.commit_log
        log_ratio = repr(store.disk.usage(log_path).used_percent / 100)
        table = {
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{log_path}": log_ratio,
            "consumeQueueDiskRatio": repr(store.disk.usage(store.directory.consume_queues).used_percent / 100),
        }
        with contextlib.suppress(FileNotFoundError):  # the store was removed
            space = shutil.disk_usage(log_path)
            table["commitLogDirCapacity"] = f"Total : {bytes_text(space.total)}, Free : {bytes_text(space.free)}."
        return table

    def _delays(self) -> dict[str, str]:
        """By level: the next queue offset to deliver, and the end of the level's queue. Levels that never had a message
        are left out."""
        offsets = self._delay.offsets
        levels = offsets.keys() | range(1, len(self._config.delay_levels_ms) + 1)
        ends = {level: self._store.max_offset(SCHEDULE_TOPIC, level - 1) for level in sorted(levels)}
        return {
            f"scheduleMessageOffset_{level}": f"{offsets.get(level, 0)},{end}"
            for level, end in ends.items()
            if end or level in offsets
        }

    def _timer_keys(self) -> dict[str, str]:
        """How far timers lag, in seconds and in unread messages; how many wait; messages a second."""
        timers = self._timers
        return {
            "timerReadBehind": str(timers.late_ms(self._clock_ms()) // 1000),
            "timerOffsetBehind": str(max(self._store.max_offset(TIMER_TOPIC, 0) - timers.queue_offset, 0)),
            "timerCongestNum": str(timers.waiting_count),
            "timerEnqueueTps": repr(self._stats.topic_put_tps(TIMER_TOPIC)),
            "timerDequeueTps": repr(self._timer_counts.delivered_tps()),
        }

    def _pools(self) -> dict[str, str]:
        table = {
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": self._config.text("endTransactionPoolQueueCapacity"),
        }
        for pool in _POOLS:
            name = f"{pool}ThreadPoolQueue"
            table[f"{name}Size"] = "0"
            table[f"{name}HeadWaitTimeMills"] = "0"
            table[f"{name}Capacity"] = self._config.text(f"{name}Capacity")
        return table


def _tps(rates: list[float | None]) -> str:
    """Three numbers; empty text for each whose period has not passed yet."""
    return " ".join("" if rate is None else repr(rate) for rate in rates)


def runtime_text(elapsed_ms: int) -> str:
    minutes, seconds = divmod(elapsed_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def bytes_text(size_bytes: int) -> str:
    """``0 B``, ``1.3 KiB``, ``252.0 GiB`` (``MixAll.humanReadableByteCount``)."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    power = min((size_bytes.bit_length() - 1) // 10, 6)
    return f"{size_bytes / 1024**power:.1f} {'KMGTPE'[power - 1]}iB"
