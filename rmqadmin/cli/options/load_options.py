"""Options that the ``bench`` commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.options.command_options import OF_CONTEXT
from rmqadmin.cli.options.common_options import OptionGroup
from rmqadmin.cli.options.value_markers import Value
from rmqproto.errors import UsageError
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES

BENCH_TOPIC = "rmqadmin_bench"
BENCH_GROUP = "rmqadmin_bench"

LoadTopicName = Annotated[str, Value.TOPIC, typer.Argument(metavar="[TOPIC]", help=f"Topic; default: {BENCH_TOPIC}.")]
BodySize = Annotated[
    int, typer.Option("--size-bytes", metavar="N", min=0, max=FRAME_SIZE_MAX_BYTES, help="Size of each body.")
]
SendRate = Annotated[
    float | None, typer.Option("--rate", metavar="N", min=0.1, help="Messages a second; default: as many as possible.")
]
ConnectionCount = Annotated[int, typer.Option("--connections", metavar="N", min=1, help="Number of connections.")]
ProcessCount = Annotated[
    int | None, typer.Option("--processes", metavar="N", min=1, help="Processes; default: half of the processors.")
]


class TimeOptions(OptionGroup, frozen=True):
    """How long the load lasts, and how often it reports."""

    duration_s: Annotated[float, typer.Option("--duration", metavar="S", min=0.1, help="Seconds to measure.")] = 10.0
    warm_up_s: Annotated[
        float, typer.Option("--warm-up", metavar="S", min=0, help="Seconds before that, not measured.")
    ] = 1.0
    interval_s: Annotated[
        float, typer.Option("--interval", metavar="S", min=0.05, help="Seconds between two rows.")
    ] = 1.0


class TopicOptions(OptionGroup, frozen=True):
    """Whether the topic is created and removed."""

    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False
    remove: Annotated[bool, typer.Option("--remove", help="Delete it at the end if --create made it.")] = False
    queue_nums: Annotated[
        int, typer.Option("--queues", metavar="N", min=1, help="Queues on each broker if it is created.")
    ] = 8
    cluster: Annotated[
        str | None,
        OF_CONTEXT,
        Value.CLUSTER,
        typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Create it in this cluster."),
    ] = None

    def check(self) -> None:
        if self.remove and not self.create:
            raise UsageError("--remove removes only what --create made", hint="Remove other topics with deleteTopic.")
