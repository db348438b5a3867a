"""Options that several of the commands about messages have, in mqadmin's spelling."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.options import TrueFalse

Begin = Annotated[
    str | None, typer.Option("-b", "--beginTimestamp", metavar="TIME", help="Stored at or after; or a range A..B.")
]
EndBefore = Annotated[str | None, typer.Option("-e", "--endTimestamp", metavar="TIME", help="Stored before.")]
QueueId = Annotated[int, typer.Option("-i", "--queueId", min=0, help="Queue id.")]
IndexCluster = Annotated[
    str | None,
    typer.Option("-c", "--cluster", metavar="NAME", help="Brokers of this cluster only, or an LMQ parent topic."),
]
PrintBody = Annotated[TrueFalse, typer.Option("-d", "--printBody", case_sensitive=False, help="The bodies too.")]
BodyFormat = Annotated[str | None, typer.Option("-f", "--bodyFormat", metavar="CHARSET", help="Charset of the body.")]
PushGroup = Annotated[
    str | None, typer.Option("-g", "--consumerGroup", metavar="GROUP", help="With -d: push it to a consumer.")
]
PushClient = Annotated[str | None, typer.Option("-d", "--clientId", metavar="CLIENT", help="With -g: the consumer.")]
