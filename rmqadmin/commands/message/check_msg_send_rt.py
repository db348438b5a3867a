"""``checkMsgSendRT``: measures how long a topic's brokers take to store a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ProbeCount, ProbeSize, Topic
from rmqadmin.core.messages.probes import (
    COUNT,
    SIZE_BYTES,
    Probe,
    mean_ms,
    mean_text,
    probes_cause,
    probes_problem,
    send_probes,
)
from rmqadmin.core.mqadmin_text import java_bool
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.topics.routes import queues_to_send_to, writable_queues
from rmqproto.errors import RocketMQError


class SendTimeRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none if it failed")]
    rt_ms: Annotated[float | None, doc("how long it took, in ms; none under --dry-run", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class SendTimeTotals(Row, frozen=True):
    mean_rt_ms: Annotated[float | None, doc("mean of all messages but the first, in ms")]
    success_count: Annotated[int, doc("messages that were stored")]
    fail_count: Annotated[int, doc("messages that were not")]


class SendTimes(Result, frozen=True):
    """How long each message took."""

    row_type: ClassVar[type[Row]] = SendTimeRow
    probes: list[Probe]

    def rows(self) -> Sequence[SendTimeRow]:
        return [
            SendTimeRow(
                broker_name=probe.queue.broker_name,
                queue_id=probe.result.queue.queue_id if probe.result else probe.queue.queue_id,
                status=probe.result.status.name if probe.result else None,
                rt_ms=probe.rt_ms,
                error=probe.error,
            )
            for probe in self.probes
        ]

    def summary(self) -> SendTimeTotals:
        mean = mean_ms(self.probes)
        return SendTimeTotals(
            mean_rt_ms=None if mean is None else round(mean, 2),
            success_count=sum(probe.result is not None for probe in self.probes),
            fail_count=sum(probe.error is not None for probe in self.probes),
        )

    def mqadmin_text(self) -> str:
        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Send Result':20}    #RT\n"
        for row in self.rows():
            sent = java_bool(row.status is not None)
            text += f"{row.broker_name:32}  {row.queue_id:<4}  {sent:20}    {round(row.rt_ms or 0)}\n"
        return f"{text}Avg RT: {mean_text(mean_ms(self.probes))}\n"

    def problem(self) -> str | None:
        return probes_problem(self.probes)

    def cause(self) -> RocketMQError | None:
        return probes_cause(self.probes)


def check_msg_send_rt(call: Call, topic: Topic, amount: ProbeCount = COUNT, size: ProbeSize = SIZE_BYTES) -> SendTimes:
    """Sends real messages to the topic's queues in turn; the topic's consumers get them. A topic that does not exist is
    an error; mqadmin has it created, and so does --output mqadmin.

    Examples:
      rmqadmin checkMsgSendRT -t OrderTopic -a 5
      rmqadmin checkMsgSendRT -t OrderTopic -a 5 -s 1024 --dry-run
    """
    topic, admin = topic.strip(), call.admin
    queues = queues_to_send_to(admin, topic) if call.as_mqadmin else writable_queues(admin.topic_route(topic), topic)
    return SendTimes(send_probes(admin, queues, amount, size, dry_run=call.dry_run))
