"""``sendMsgStatus``: sends test messages to one broker, and shows its answer to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerName
from rmqadmin.core.messages.probes import SIZE_BYTES, Probe, probes_cause, probes_problem, send_probes
from rmqadmin.core.mqadmin_text import queue_text
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.write_perm import require_broker
from rmqadmin.core.topics.routes import queues_to_send_to
from rmqproto.errors import RocketMQError
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES

if TYPE_CHECKING:
    from rmqclient.message import SendResult

COUNT_DEFAULT = 50


class SendStatusRow(Row, frozen=True):
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none if it failed")]
    rt_ms: Annotated[float | None, doc("how long it took, in ms; none under --dry-run")]
    broker_name: Annotated[str, doc("broker name", wide=True)]
    queue_id: Annotated[int, doc("queue id")]
    queue_offset: Annotated[int | None, doc("its place in the queue")]
    message_id: Annotated[str | None, doc("unique key", key=True)]
    offset_message_id: Annotated[str | None, doc("id made by the broker", wide=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class SendStatuses(Result, frozen=True):
    """What the broker answered to each message."""

    row_type: ClassVar[type[Row]] = SendStatusRow
    probes: list[Probe]

    def rows(self) -> Sequence[SendStatusRow]:
        return [_row(probe, probe.result) for probe in self.probes]

    def mqadmin_text(self) -> str:
        return "".join(
            f"rt={round(probe.rt_ms or 0)}ms, SendResult={_send_result_text(probe.result)}\n"
            for probe in self.probes
            if probe.result is not None
        )

    def problem(self) -> str | None:
        return probes_problem(self.probes)

    def cause(self) -> RocketMQError | None:
        return probes_cause(self.probes)


def _row(probe: Probe, result: SendResult | None) -> SendStatusRow:
    return SendStatusRow(
        status=result.status.name if result else None,
        rt_ms=probe.rt_ms,
        broker_name=probe.queue.broker_name,
        queue_id=result.queue.queue_id if result else probe.queue.queue_id,
        queue_offset=result.queue_offset if result else None,
        message_id=result.message_id if result else None,
        offset_message_id=result.offset_message_id if result else None,
        error=probe.error,
    )


def _send_result_text(result: SendResult) -> str:
    """``SendResult.toString``."""
    return (
        f"SendResult [sendStatus={result.status.name}, msgId={result.message_id}, "
        f"offsetMsgId={result.offset_message_id}, messageQueue={queue_text(result.queue)}, "
        f"queueOffset={result.queue_offset}, recallHandle=null]"
    )


def send_msg_status(
    call: Call,
    broker_name: BrokerName,
    message_size: Annotated[
        int,
        typer.Option(
            "-s", "--messageSize", metavar="BYTES", min=1, max=FRAME_SIZE_MAX_BYTES, help="Size of each message's body."
        ),
    ] = SIZE_BYTES,
    count: Annotated[int, typer.Option("-c", "--count", min=1, help="How many messages.")] = COUNT_DEFAULT,
) -> SendStatuses:
    """The messages go to the topic that has the broker's name. An unknown broker is an error; mqadmin has a topic of
    that name created, and so does --output mqadmin. One more message is sent first and is not shown.

    Examples:
      rmqadmin sendMsgStatus -b broker-a -c 5
      rmqadmin sendMsgStatus -b broker-a -c 5 --dry-run
    """
    name = broker_name.strip()
    if not call.as_mqadmin:
        require_broker(call.admin, name)
    queues = queues_to_send_to(call.admin, name)
    probes = send_probes(call.admin, queues, count + 1, message_size, dry_run=call.dry_run)
    return SendStatuses(probes[1:])
