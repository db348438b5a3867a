"""Test messages that measure how long a broker takes to store one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.results import first_if_all
from rmqclient.message import Message, SendResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

SIZE_BYTES, COUNT = 128, 100
"""mqadmin's defaults."""


class Probe(msgspec.Struct, frozen=True):
    """One test message, sent or (``rt_ms`` is None) only planned. ``failure``: why the broker did not take it."""

    queue: MessageQueue
    rt_ms: float | None = None
    result: SendResult | None = None
    failure: RocketMQError | None = None

    @property
    def error(self) -> str | None:
        return None if self.failure is None else str(self.failure)


def send_probes(
    admin: AdminClient, queues: Iterable[tuple[MessageQueue, str]], count: int, size_bytes: int, *, dry_run: bool
) -> list[Probe]:
    """Sends ``count`` messages one after another, to the queues in turn."""
    message = Message(next(iter(queues))[0].topic, b"a" * size_bytes)
    return [
        Probe(queue) if dry_run else send_probe(admin, queue, addr, message)
        for queue, addr in islice(cycle(queues), count)
    ]


def send_probe(admin: AdminClient, queue: MessageQueue, addr: str, message: Message) -> Probe:
    started_s = time.monotonic()
    try:
        result, failure = admin.send_message(addr, queue, message), None
    except RocketMQError as error:
        result, failure = None, error
    return Probe(queue, round((time.monotonic() - started_s) * 1000, 2), result, failure)


def mean_ms(probes: Iterable[Probe]) -> float | None:
    """The mean without the first message, whose time includes opening the connection. None for a single message."""
    found = [probe.rt_ms for probe in islice(probes, 1, None) if probe.rt_ms is not None]
    return sum(found) / len(found) if found else None


def shown_mean_ms(probes: Sequence[Probe]) -> float | None:
    """``mean_ms``, but the time of a single message, which mqadmin shows as no number."""
    return probes[0].rt_ms if len(probes) == 1 else mean_ms(probes)


def mean_text(value: float | None) -> str:
    """``%.2f`` as Java formats it."""
    return "NaN" if value is None else f"{value:.2f}"


def failures(probes: Iterable[Probe]) -> Iterator[str]:
    return (probe.error for probe in probes if probe.error is not None)


def probes_problem(probes: Sequence[Probe]) -> str | None:
    """For ``Result.problem``."""
    found = list(failures(probes))
    return f"{len(found)} of {counted(len(probes), 'message')} failed: {found[0]}" if found else None


def probes_cause(probes: Sequence[Probe]) -> RocketMQError | None:
    """For ``Result.cause``."""
    return first_if_all([probe.failure for probe in probes])
