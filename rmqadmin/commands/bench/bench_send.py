"""``bench send``: sends messages as fast as brokers accept them, or at a rate."""

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
from rmqadmin.core.load.load_rows import LoadFigures
from rmqadmin.core.load.planned_load import PlannedLoad


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
