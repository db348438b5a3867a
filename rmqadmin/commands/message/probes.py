"""One message is sent, or many, to see whether it works and how long it takes."""

import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER_NAME, BrokerName, ProbeCount, ProbeSize, Topic, TrueFalse
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.options.message_options import MessageKeys, MessageTag
from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.bodies_in import FILE_MARK, STANDARD_INPUT, whole
from rmqadmin.core.messages.sending import (
    COUNT,
    SIZE_BYTES,
    Probe,
    Probed,
    Sent,
    choose_queue,
    failures,
    mean_ms,
    mean_text,
    probes_cause,
    say_if_new,
    send_one,
    send_probes,
    send_result_text,
    sent_values,
    shown_mean_ms,
)
from rmqadmin.core.mqadmin_text import java_bool
from rmqadmin.core.results import ResultOf, Row, SendingRow, doc, first_if_all, some_failed
from rmqadmin.core.servers.namesrv_tables import require_broker
from rmqadmin.core.topics.routes import queues_to_send_to, writable_queues
from rmqclient.message import Message, SendResult
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.names import TRACE_TOPIC
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES

TRACE_GROUP = "_INNER_TRACE_PRODUCER"


_TRACE_FIELD, _TRACE_RECORD = "\x01", "\x02"


def send_message(
    call: Call,
    topic: Topic,
    body: Annotated[str, option("-p", "--body", "Body, as UTF-8. - is standard input.", metavar="TEXT")],
    key: MessageKeys = None,
    tags: MessageTag = None,
    broker: Annotated[str | None, A_BROKER_NAME, Value.BROKER_NAME, option("-b", "--broker", "Broker name.")] = None,
    queue_id: Annotated[int | None, option("-i", "--qid", "With -b: queue id.", min=0)] = None,
    msg_trace_enable: Annotated[TrueFalse | None, option("-m", "--msgTraceEnable", "Also send its trace.")] = None,
) -> Sent:
    """Without -b and -i, the message goes to any queue of the topic. -b alone means any queue of that broker; mqadmin
    ignores it.

      rmqadmin sendMessage -t OrderTopic -p 'order 1' -k ORDER-1 -c paid
      rmqadmin sendMessage -t OrderTopic -p 'order 2' -b broker-a -i 0
      rmqadmin -o json sendMessage -t OrderTopic -p 'order 3'
    """
    if queue_id is not None and broker is None:
        raise UsageError("Broker name must be set if the queue is chosen!", hint="Add -b BROKER_NAME.")
    content = _content(call, topic, body)
    message = Message(topic, content, tags=tags or None, keys=(key or "").split())
    say_if_new(call.admin, message.topic, call.notice, dry_run=call.dry_run)
    place = choose_queue(call.admin, message.topic, broker, queue_id)
    started_s = time.monotonic()
    sent = send_one(call.admin, place, message, call.notice, dry_run=call.dry_run)
    if msg_trace_enable is TrueFalse.TRUE and sent.result is not None:
        _send_trace(call, message, sent.result, place[1], round((time.monotonic() - started_s) * 1000))
    return sent


def _content(call: Call, topic: str, text: str) -> bytes:
    """The body. ``@FILE`` is a text here, as in mqadmin: if there is such a file, a person is not left to send its
    name, and a script is told."""
    if call.as_mqadmin or not text.startswith((STANDARD_INPUT, FILE_MARK)):
        return text.encode()
    if text == STANDARD_INPUT:
        call.tell_if_typed("a message")
        return whole(text)
    if len(text) > 1 and Path(text[1:]).is_file():
        hint = f"`rmqadmin msg send {topic} {shlex.quote(text)}` sends what the file holds; --yes sends this text."
        if call.can_ask:
            raise UsageError(f"-p {text} would send this text, and not the file", hint=hint)
        command = f"rmqadmin msg send {topic} {shlex.quote(text)}"
        call.notice(f"the body is the text {text}, as in mqadmin; `{command}` sends the file")
    return text.encode()


def _send_trace(call: Call, message: Message, result: SendResult, broker_addr: str, cost_ms: int) -> None:
    """Sends the record of a send (``TraceDataEncoder``, type Pub, 5.5.0) to the trace topic."""
    fields = [
        "Pub", call.now_ms() - cost_ms, "DefaultRegion", "TOOLS_PRODUCER", message.topic, result.message_id,
        message.tags or "", " ".join(message.keys), broker_addr, len(message.body), cost_ms, 0,
        result.offset_message_id, "true",
    ]  # fmt: skip
    record = _TRACE_FIELD.join(map(str, fields)) + _TRACE_RECORD
    trace = Message(TRACE_TOPIC, record.encode(), keys=[result.message_id, *message.keys])
    queue, addr = choose_queue(call.admin, TRACE_TOPIC, None, None)
    call.admin.send_message(addr, queue, trace, group=TRACE_GROUP)


class SendTimeRow(SendingRow, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none if it failed")]
    rt_ms: Annotated[float | None, doc("how long it took, in ms; none under --dry-run", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class SendTimeTotals(Row, frozen=True):
    mean_rt_ms: Annotated[float | None, doc("mean of all messages but the first, in ms")]
    success_count: Annotated[int, doc("messages that were stored")]
    fail_count: Annotated[int, doc("messages that were not")]


class SendTimes(Probed[SendTimeRow], frozen=True):
    """How long each message took."""

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


def check_msg_send_rt(call: Call, topic: Topic, amount: ProbeCount = COUNT, size: ProbeSize = SIZE_BYTES) -> SendTimes:
    """Sends real messages to the topic's queues in turn; the topic's consumers get them. A topic that does not exist is
    an error; mqadmin has it created, and so does --output mqadmin.

      rmqadmin checkMsgSendRT -t OrderTopic -a 5
      rmqadmin checkMsgSendRT -t OrderTopic -a 5 -s 1024 --dry-run
    """
    admin = call.admin
    queues = queues_to_send_to(admin, topic) if call.as_mqadmin else writable_queues(admin.topic_route(topic), topic)
    return SendTimes(send_probes(admin, queues, amount, size, dry_run=call.dry_run))


_CHINA = timedelta(hours=8)
"""mqadmin writes log times in GMT+8 on every machine."""


class BrokerTimeRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name")]
    broker_name: Annotated[str, doc("broker name", key=True)]
    mean_rt_ms: Annotated[
        float | None,
        doc("mean of all but the first of several, in ms; none under --dry-run", vital=True),
    ]
    success_count: Annotated[int, doc("messages that were stored")]
    fail_count: Annotated[int, doc("messages that were not", vital=True)]
    error: Annotated[str | None, doc("why the first of them failed", sparse=True)]


class ProbedBroker(msgspec.Struct, frozen=True):
    """One broker and its test messages. ``failure``: why nothing could be sent."""

    cluster: str
    broker_name: str
    probes: list[Probe]
    failure: RocketMQError | None = None


class BrokerTimes(ResultOf[BrokerTimeRow], frozen=True):
    """How long each broker took."""

    found: list[ProbedBroker]
    count: int
    log_room: str | None
    now_ms: int

    def rows(self) -> Sequence[BrokerTimeRow]:
        return [self._row(one) for one in self.found]

    def _row(self, one: ProbedBroker) -> BrokerTimeRow:
        mean, failed = shown_mean_ms(one.probes), failures(one.probes)
        return BrokerTimeRow(
            cluster=one.cluster,
            broker_name=one.broker_name,
            mean_rt_ms=None if mean is None else round(mean, 2),
            success_count=sum(probe.result is not None for probe in one.probes),
            fail_count=self.count if one.failure else len(failed),
            error=str(one.failure) if one.failure else next(iter(failed), None),
        )

    def mqadmin_text(self) -> str:
        if self.log_room is not None:
            moment = (datetime.fromtimestamp(self.now_ms // 1000, UTC) + _CHINA).strftime("%Y-%m-%d %H:%M:%S")
            return "".join(
                f"{moment}|{self.log_room}|{row.cluster}|{row.broker_name}|{round(row.mean_rt_ms or 0)}\n"
                for row in self.rows()
            )
        text = f"{'#Cluster Name':24}  {'#Broker Name':24}  {'#RT':4}  {'#successCount':8}  {'#failCount':8}\n"
        for one, row in zip(self.found, self.rows(), strict=True):
            mean = mean_text(mean_ms(one.probes))
            text += f"{row.cluster:24}  {row.broker_name:24}  {mean:8}  {row.success_count:<16}  {row.fail_count:<16}\n"
        return text

    def problem(self) -> str | None:
        return some_failed([row.error for row in self.rows()], "broker")

    def cause(self) -> RocketMQError | None:
        return first_if_all([one.failure or probes_cause(one.probes) for one in self.found])


def cluster_rt(
    call: Call,
    amount: ProbeCount = COUNT,
    size: ProbeSize = SIZE_BYTES,
    cluster: Annotated[str | None, Value.CLUSTER, option("-c", "--cluster", "This cluster only.")] = None,
    print_log: Annotated[
        TrueFalse, option("-p", "--printLog", "With --output mqadmin: lines for a log.")
    ] = TrueFalse.FALSE,
    machine_room: Annotated[
        str, Value.NAME, option("-m", "--machineRoom", "With -p: the place to name in the lines.")
    ] = "noname",
) -> BrokerTimes:
    """The messages go to the topic that has the broker's name. Runs one round, or more with -i or --watch; mqadmin
    never ends.

      rmqadmin clusterRT -a 5
      rmqadmin clusterRT -a 5 -c DefaultCluster --watch 10
      rmqadmin clusterRT -a 5 -p true -m east --output mqadmin
    """
    info = call.admin.cluster_info()
    if cluster is not None:
        targets.cluster(call.admin, cluster)  # an unknown cluster is an error that lists the known ones
    names = [
        (name, broker_name)
        for name, members in sorted(info.cluster_addr_table.items())
        if cluster is None or name == cluster
        for broker_name in sorted(members)
    ]
    found = [_probed(call.admin, name, broker, amount, size, call.dry_run) for name, broker in names]
    return BrokerTimes(found, amount, machine_room if print_log is TrueFalse.TRUE else None, call.now_ms())


def _probed(admin: AdminClient, cluster: str, broker_name: str, count: int, size: int, dry_run: bool) -> ProbedBroker:
    try:
        queues = writable_queues(admin.topic_route(broker_name), broker_name)
    except RocketMQError as error:
        return ProbedBroker(cluster, broker_name, [], error)
    own = [found for found in queues if found[0].broker_name == broker_name] or queues
    return ProbedBroker(cluster, broker_name, send_probes(admin, own, count, size, dry_run=dry_run))


COUNT_DEFAULT = 50


class SendStatusRow(SendingRow, frozen=True):
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none if it failed")]
    rt_ms: Annotated[float | None, doc("how long it took, in ms; none under --dry-run")]
    broker_name: Annotated[str, doc("broker name", wide=True)]
    queue_id: Annotated[int, doc("queue id")]
    queue_offset: Annotated[int | None, doc("its place in the queue")]
    message_id: Annotated[str | None, doc("unique key", key=True)]
    offset_message_id: Annotated[str | None, doc("id made by the broker", wide=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class SendStatuses(Probed[SendStatusRow], frozen=True):
    """What the broker answered to each message."""

    def rows(self) -> Sequence[SendStatusRow]:
        return [
            SendStatusRow(rt_ms=probe.rt_ms, error=probe.error, **sent_values(probe.queue, probe.result))
            for probe in self.probes
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            f"rt={round(probe.rt_ms or 0)}ms, SendResult={send_result_text(probe.result)}\n"
            for probe in self.probes
            if probe.result is not None
        )


def send_msg_status(
    call: Call,
    broker_name: BrokerName,
    message_size: Annotated[
        int,
        option("-s", "--messageSize", "Size of each message's body.", metavar="BYTES", min=1, max=FRAME_SIZE_MAX_BYTES),
    ] = SIZE_BYTES,
    count: Annotated[int, option("-c", "--count", "How many messages.", min=1)] = COUNT_DEFAULT,
) -> SendStatuses:
    """The messages go to the topic that has the broker's name. An unknown broker is an error; mqadmin has a topic of
    that name created, and so does --output mqadmin. One more message is sent first and is not shown.

      rmqadmin sendMsgStatus -b broker-a -c 5
      rmqadmin sendMsgStatus -b broker-a -c 5 --dry-run
    """
    if not call.as_mqadmin:
        require_broker(call.admin, broker_name)
    queues = queues_to_send_to(call.admin, broker_name)
    probes = send_probes(call.admin, queues, count + 1, message_size, dry_run=call.dry_run)
    return SendStatuses(probes[1:])
