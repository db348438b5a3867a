"""``bench latency``: measures how long messages take from their producer to a waiting consumer."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.load_options import BENCH_TOPIC, BodySize, LoadTopicName, TimeOptions, TopicOptions
from rmqadmin.cli.shared.load_start import Wanted, dry_run, load_run, load_topic
from rmqadmin.core.load.load_rows import DeliveryFigures
from rmqadmin.core.load.planned_load import PlannedLoad
from rmqadmin.core.load.templates import STAMP_SIZE_BYTES
from rmqproto.errors import UsageError

_IN_FLIGHT = 64
"""The most pending requests: a stalled broker gets no more."""


def bench_latency(
    call: Call,
    time: TimeOptions,
    made: TopicOptions,
    topic: LoadTopicName = BENCH_TOPIC,
    size_bytes: BodySize = 128,
    rate: Annotated[float, typer.Option("--rate", metavar="N", min=0.1, help="Messages a second.")] = 100.0,
) -> DeliveryFigures | PlannedLoad:
    """Sends at a low rate, and waits for each message with a long poll at the end of its queue. Measures from the
    moment when a message was due until it arrives here. Commits nothing: no group moves. Ctrl-C ends it with the
    figures so far. A topic that already has messages or groups is used only after its name is typed, or with --yes.

    Examples:
      rmqadmin bench latency --create --remove --queues 1
      rmqadmin -o json bench latency LoadTopic --rate 1000 --duration 30
    """
    if size_bytes < STAMP_SIZE_BYTES:
        raise UsageError(f"--size-bytes: a body that says when it was sent has {STAMP_SIZE_BYTES} bytes at least")
    used = load_topic(call, topic, made, sends=True)
    wanted = Wanted(
        senders=1, processes=1, size_bytes=size_bytes, in_flight=_IN_FLIGHT, rate=rate, is_stamped=True
    )  # fmt: skip
    if call.dry_run:
        return dry_run(call, used, wanted)
    return DeliveryFigures(load_run(call, used, made, time, wanted))
