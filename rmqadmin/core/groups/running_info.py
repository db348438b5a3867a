"""What a consumer says about itself (307): as Apache prints it, and what is wrong with it (``ConsumerRunningInfo``,
``ProcessQueueInfo`` and ``PopProcessQueueInfo``, 5.5.0)."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from rmqadmin.core import units
from rmqadmin.core.mqadmin_text import java_bool, java_text, queue_text
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.bodies.statistics import STARTED_MS, THREADS, ConsumerRunningInfo, ProcessQueueInfo
from rmqproto.wording import counted

T = TypeVar("T")

SETTLED_MS = 2 * 60 * 1000
"""How long after its start a client may have a different subscription: a deployment may be in progress."""

STUCK_MS = 60 * 1000
"""How long a client may hold messages of a queue without consuming one."""


def started_ms(info: ConsumerRunningInfo) -> int | None:
    text = info.properties.get(STARTED_MS, "")
    return int(text) if text.isdecimal() else None


def subscriptions(info: ConsumerRunningInfo) -> list[SubscriptionData]:
    return sorted(info.subscription_set, key=lambda wanted: f"{wanted.topic}@{wanted.sub_string}")


def have_same_subscription(infos: Mapping[str, ConsumerRunningInfo], now_ms: int) -> bool:
    """Whether all clients of a group want the same, but for pull clients and those that have just started."""
    found = [infos[client_id] for client_id in sorted(infos)]
    if not found or not found[0].is_push or now_ms - (started_ms(found[0]) or now_ms) <= SETTLED_MS:
        return True
    wants = [[(wanted.topic, wanted.sub_string) for wanted in subscriptions(info)] for info in found]
    return all(want == wants[0] for want in wants)


class Pace(msgspec.Struct, frozen=True):
    """What a client manages, by its own word: messages consumed a second in the last minute; how long one call of its
    listener takes, None if it has consumed nothing lately; its threads."""

    consumed_tps: float
    consume_ms: float | None
    thread_count: int | None

    @property
    def most_tps(self) -> float | None:
        """What its threads could do if all of them were busy."""
        if self.consume_ms is None or self.thread_count is None:
            return None
        return self.thread_count * 1000 / self.consume_ms


def pace_text(pace: Pace | None) -> str:
    """``120.0/s, 25 ms each, 20 threads``"""
    if pace is None:
        return "not known"
    words = [f"{units.rate(pace.consumed_tps)}/s"]
    words += [] if pace.consume_ms is None else [f"{units.duration(pace.consume_ms)} each"]
    words += [] if pace.thread_count is None else [counted(pace.thread_count, "thread")]
    return ", ".join(words)


def pace_of(info: ConsumerRunningInfo) -> Pace | None:
    """None of a client that does not tell, as those that speak gRPC."""
    rates = info.status_table.values()
    if not rates:
        return None
    threads = info.properties.get(THREADS, "")
    return Pace(
        sum(rate.consume_ok_tps for rate in rates),
        mean_ms((rate.consume_ok_tps + rate.consume_failed_tps, rate.consume_rt) for rate in rates),
        int(threads) if threads.isdecimal() and int(threads) else None,
    )


def mean_ms(times: Iterable[tuple[float, float | None]]) -> float | None:
    """The mean of times, each with its messages a second; None if there is no time above 0."""
    known = [(max(tps, 0.001), each_ms) for tps, each_ms in times if each_ms]
    return sum(tps * each_ms for tps, each_ms in known) / sum(tps for tps, _ in known) if known else None


class QueueProblem(NamedTuple):
    """``what`` in a few words, and in mqadmin's words."""

    queue: MessageQueue
    what: str
    mqadmin_what: str

    def __str__(self) -> str:
        return f"{self.what}: {self.queue.topic}/{self.queue.broker_name}/{self.queue.queue_id}"

    def mqadmin_text(self, client_id: str) -> str:
        return f"{client_id} {queue_text(self.queue)} {self.mqadmin_what}"


def queue_problems(info: ConsumerRunningInfo, now_ms: int) -> list[QueueProblem]:
    """What is wrong with a push client's queues."""
    if not info.is_push:
        return []
    found = []
    for queue, state in sorted(info.mq_table.items()):
        if info.is_orderly and not state.locked:
            text = f"can't lock for a while, {now_ms - state.last_lock_timestamp}ms"
            found.append(QueueProblem(queue, "not locked", text))
        elif info.is_orderly and state.droped and state.try_unlock_times > 0:
            text = f"unlock {state.try_unlock_times} times, still failed"
            found.append(QueueProblem(queue, f"unlocked {counted(state.try_unlock_times, 'time')} in vain", text))
        elif not info.is_orderly and state.cached_msg_count > 0 and now_ms - state.last_consume_timestamp > STUCK_MS:
            since_ms = now_ms - state.last_consume_timestamp
            text = f"can't consume for a while, maybe blocked, {since_ms}ms"
            found.append(QueueProblem(queue, f"blocked for {units.duration(since_ms)}", text))
    return found


# --- mqadmin's text --------------------------------------------------------------------------------------------------


def running_info_text(info: ConsumerRunningInfo) -> str:
    """``ConsumerRunningInfo.formatString``."""
    sections = [
        "#Consumer Properties#\n" + _named(info.properties, sorted(info.properties)),
        "#Consumer Subscription#\n" + _subscriptions(info),
        "#Consumer Offset#\n" + _by_queue(info.mq_table, "#Consumer Offset", _offset, topic_width=32),
        "#Consumer MQ Detail#\n" + _by_queue(info.mq_table, "#ProcessQueueInfo", _process_queue),
        "#Consumer Pop Detail#\n"
        + _by_queue(info.mq_pop_table, "#ProcessQueueInfo", _pop_queue, head_width=32, topic_width=32),
        "#Consumer RT&TPS#\n" + _rates(info),
        "#User Consume Info#\n" + _named(info.user_consumer_info, sorted(info.user_consumer_info)),
    ]
    if info.jstack is not None:
        sections.append("#Consumer jstack#\n" + info.jstack)
    return "\n\n".join(sections)


def _named(values: Mapping[str, str], order: list[str]) -> str:
    return "".join(f"{name:40}: {values[name]}\n" for name in order)


def _subscriptions(info: ConsumerRunningInfo) -> str:
    return "".join(
        f"{at:03} Topic: {wanted.topic:40} ClassFilter: {java_bool(wanted.class_filter_mode):8} "
        f"SubExpression: {wanted.sub_string}\n"
        for at, wanted in enumerate(subscriptions(info), 1)
    )


def _by_queue(
    table: Mapping[MessageQueue, T],
    column: str,
    text_of: Callable[[T], str],
    head_width: int = 64,
    topic_width: int = 64,
) -> str:
    text = f"{'#Topic':{head_width}}  {'#Broker Name':32}  {'#QID':4}  {column:20}\n"
    for queue, state in sorted(table.items(), key=lambda item: item[0]):
        text += f"{queue.topic:{topic_width}}  {queue.broker_name:32}  {queue.queue_id:<4}  {text_of(state)}\n"
    return text


def _offset(state: ProcessQueueInfo) -> str:
    return f"{state.commit_offset:<20}"


def _process_queue(state: ProcessQueueInfo) -> str:
    return (
        f"ProcessQueueInfo [commitOffset={state.commit_offset}, cachedMsgMinOffset={state.cached_msg_min_offset}, "
        f"cachedMsgMaxOffset={state.cached_msg_max_offset}, cachedMsgCount={state.cached_msg_count}, "
        f"cachedMsgSizeInMiB={state.cached_msg_size_in_mib}, "
        f"transactionMsgMinOffset={state.transaction_msg_min_offset}, "
        f"transactionMsgMaxOffset={state.transaction_msg_max_offset}, "
        f"transactionMsgCount={state.transaction_msg_count}, locked={java_bool(state.locked)}, "
        f"tryUnlockTimes={state.try_unlock_times}, lastLockTimestamp={_digits(state.last_lock_timestamp)}, "
        f"droped={java_bool(state.droped)}, lastPullTimestamp={_digits(state.last_pull_timestamp)}, "
        f"lastConsumeTimestamp={_digits(state.last_consume_timestamp)}]"
    )


def _digits(timestamp_ms: int) -> str:
    """``UtilAll.timeMillisToHumanString``: local time to the millisecond."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).astimezone()
    return f"{moment:%Y%m%d%H%M%S}{timestamp_ms % 1000:03}"


def _pop_queue(state: Mapping[str, Any]) -> str:
    fields = ("waitAckCount", "droped", "lastPopTimestamp")
    return f"PopProcessQueueInfo [{', '.join(f'{name}:{java_text(state.get(name))}' for name in fields)}]"


def _rates(info: ConsumerRunningInfo) -> str:
    text = (
        f"{'#Topic':64}  {'#Pull RT':>14} {'#Pull TPS':>14} {'#Consume RT':>14} {'#ConsumeOK TPS':>14} "
        f"{'#ConsumeFailed TPS':>18} {'#ConsumeFailedMsgsInHour':>25}\n"
    )
    for topic, rate in sorted(info.status_table.items()):
        text += (
            f"{topic:32}  {rate.pull_rt:14.2f} {rate.pull_tps:14.2f} {rate.consume_rt:14.2f} "
            f"{rate.consume_ok_tps:14.2f} {rate.consume_failed_tps:18.2f} {rate.consume_failed_msgs:25}\n"
        )
    return text
