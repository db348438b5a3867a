"""What the processes of a load are told, and what they tell: lines of JSON on their standard input and output.

In: a ``LoadPlan``; a line of any text once all processes are ready, with which the load begins; the end of the input,
at which it ends early. Out: ``ReadyReport``, then an ``IntervalReport`` for each interval, the last with ``is_last``.
"""

from __future__ import annotations

import msgspec

from rmqclient.tls_files import TlsFiles
from rmqproto.wire.credentials import Credentials


class LoadQueue(msgspec.Struct, frozen=True):
    """A queue of the topic, and where pulls of it begin and, if they begin again there, end (queue offsets)."""

    queue_id: int
    offset: int = 0
    end_offset: int = 0


class LanePlan(msgspec.Struct, frozen=True):
    """One connection to one broker. ``sends``: messages to its queues in turn; else it pulls from them in turn."""

    host: str
    port: int
    sends: bool
    queues: tuple[LoadQueue, ...]


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """``rate`` is of messages a second, of this process; 0 for as many as go. ``batch_size`` is of messages a send
    request, or asked for by a pull. ``is_stamped``: bodies say when they were sent, and what is pulled is searched for
    such. ``repeats``: at the end of a queue pulls begin again. ``run_id`` is of 22 hex digits."""

    topic: str
    group: str
    run_id: str
    lanes: list[LanePlan]
    size_bytes: int
    in_flight: int
    batch_size: int
    rate: float
    duration_s: float
    warm_up_s: float
    interval_s: float
    timeout_s: float
    is_stamped: bool = False
    repeats: bool = False
    tag: str = ""
    has_keys: bool = False
    credentials: Credentials | None = None
    tls: TlsFiles | None = None


class ReadyReport(msgspec.Struct, frozen=True, tag="ready"):
    """All connections are there; or ``problem`` says why not, and the process ends."""

    problem: str | None = None


class IntervalReport(msgspec.Struct, frozen=True, tag="interval"):
    """``messages`` and ``size_bytes`` of bodies that were sent, or of records that were pulled. ``answers_us`` are
    times of requests by length in us, ``deliveries_us`` of stamped messages from sending to receiving. ``errors`` are
    refusals and what else went wrong, by what was said."""

    seconds: float
    messages: int
    size_bytes: int
    received: int
    errors: dict[str, int]
    answers_us: dict[int, int]
    deliveries_us: dict[int, int]
    is_warm_up: bool = False
    is_last: bool = False


Report = ReadyReport | IntervalReport
