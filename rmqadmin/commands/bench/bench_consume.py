"""``bench consume``: consumes messages as fast as brokers deliver them."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.load_options import (
    BENCH_TOPIC,
    ConnectionCount,
    LoadTopicName,
    ProcessCount,
    TimeOptions,
    TopicOptions,
)
from rmqadmin.cli.shared.load_start import Wanted, load_run, load_topic
from rmqadmin.core.load.load_rows import LoadFigures


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
