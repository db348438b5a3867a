"""Load: how fast a cluster sends, reads and delivers."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.load_options import (
    BENCH_TOPIC,
    BodySize,
    ConnectionCount,
    LoadTopicName,
    ProcessCount,
    SendRate,
    TimeOptions,
    TopicOptions,
)
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.load_start import Wanted, dry_run, load_run, load_topic
from rmqadmin.core.load.load_rows import DeliveryFigures, LoadFigures
from rmqadmin.core.load.planned_load import PlannedLoad
from rmqadmin.core.load.templates import STAMP_SIZE_BYTES
from rmqproto.errors import UsageError


def bench_send(
    call: Call,
    time: TimeOptions,
    made: TopicOptions,
    topic: LoadTopicName = BENCH_TOPIC,
    size_bytes: BodySize = 128,
    connections: ConnectionCount = 8,
    in_flight: Annotated[
        int, typer.Option("--in-flight", metavar="N", min=1, max=4096, help="Requests in flight on each connection.")
    ] = 1,
    batch_size: Annotated[
        int, typer.Option("--batch", metavar="N", min=1, max=1024, help="Messages in each request.")
    ] = 1,
    rate: SendRate = None,
    tag: Annotated[str, Value.NAME, typer.Option("--tag", metavar="TAG", help="Tag of the messages.")] = "",
    has_keys: Annotated[bool, typer.Option("--keys", help="Give each message its own key.")] = False,
    processes: ProcessCount = None,
) -> LoadFigures | PlannedLoad:
    """Shows a row per interval: messages a second, and how long requests took. Every message has its own unique key;
    queues are taken in turn. Ctrl-C ends it with the figures so far. With --rate, a request's time counts from when it
    was due. A topic that already has messages or groups is flooded only after its name is typed, or with --yes.

    Examples:
      rmqadmin bench send --create --remove --duration 10
      rmqadmin -o csv bench send LoadTopic --connections 64 --size-bytes 1024 --duration 60
      rmqadmin bench send LoadTopic --connections 4 --in-flight 64 --rate 20000
      rmqadmin bench send LoadTopic --batch 32 --dry-run
    """
    wanted = Wanted(
        senders=connections, processes=processes, size_bytes=size_bytes, in_flight=in_flight, batch_size=batch_size,
        rate=rate or 0.0, tag=tag, has_keys=has_keys,
    )  # fmt: skip
    used = load_topic(call, topic, made, sends=True)
    if call.dry_run:
        return dry_run(call, used, wanted)
    return LoadFigures(load_run(call, used, made, time, wanted))


def bench_consume(
    call: Call,
    time: TimeOptions,
    topic: LoadTopicName = BENCH_TOPIC,
    connections: ConnectionCount = 8,
    batch_size: Annotated[
        int, typer.Option("--batch", metavar="N", min=1, max=1024, help="Messages asked for at once.")
    ] = 32,
    repeats: Annotated[
        bool, typer.Option("--repeat", help="At the end of a queue, start it again instead of waiting.")
    ] = False,
    processes: ProcessCount = None,
) -> LoadFigures:
    """Pulls every queue from its first message on and commits nothing: no group moves, and others get the same
    messages. Queues are shared out among the connections. Shows a row per interval: messages a second, and how long
    requests took. Ctrl-C ends it with the figures so far.

    Examples:
      rmqadmin bench consume LoadTopic --repeat --duration 10
      rmqadmin -o json bench consume LoadTopic --connections 4
    """
    made = TopicOptions()
    used = load_topic(call, topic, made, sends=False)
    wanted = Wanted(pullers=connections, processes=processes, batch_size=batch_size, repeats=repeats)
    return LoadFigures(load_run(call, used, made, time, wanted))


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
