"""Like ``test_mqadmin_texts``, for test messages, traces and monitoring, whose numbers vary."""

import pytest

from rmqadmin.commands.group.monitoring import Monitored, MonitorRound, TopicLag
from rmqadmin.commands.message.probes import BrokerTimes, ProbedBroker, SendStatuses, SendTimes
from rmqadmin.commands.message.traces import MessageTrace
from rmqadmin.core.messages.sending import Probe
from rmqclient.message import SendResult, SendStatus
from rmqproto import trace
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from rmqproto.trace import FoundTrace, TraceRecord
from tests.rmqadmin.conftest import golden

pytestmark = pytest.mark.usefixtures("utc")

QUEUES = [MessageQueue("PlainTopic", "broker-a", queue_id) for queue_id in range(4)]


def sent(queue: MessageQueue, rt_ms: float, message_id: str = "", offset_id: str = "", offset: int = 0) -> Probe:
    return Probe(queue, rt_ms, SendResult(SendStatus.SEND_OK, message_id, offset_id, queue, offset))


def test_check_msg_send_rt() -> None:
    probes = [sent(queue, rt_ms) for queue, rt_ms in zip(QUEUES[:3], (21.4, 1.2, 0.8), strict=True)]
    assert SendTimes(probes).mqadmin_text() == golden("checkMsgSendRT", "ok")


def test_the_mean_of_a_single_message_is_not_known() -> None:
    """The first message is left out, because its time includes the connection. mqadmin divides by zero."""
    times = SendTimes([sent(QUEUES[0], 1.0)])
    assert times.summary().mean_rt_ms is None
    assert times.mqadmin_text().endswith("Avg RT: NaN\n")


def test_a_message_that_was_not_taken_is_counted_and_told_of() -> None:
    times = SendTimes([sent(QUEUES[0], 1.0), Probe(QUEUES[1], 2.0, failure=RocketMQError("full"))])
    assert (times.summary().success_count, times.summary().fail_count) == (1, 1)
    assert times.problem() == "1 of 2 messages failed: full"
    assert times.mqadmin_text().splitlines()[2].split() == ["broker-a", "1", "false", "2"]


def test_send_msg_status() -> None:
    queue = MessageQueue("broker-a", "broker-a", 0)
    probes = [
        sent(queue, 267.0, "7F0000010E2C4E0E2F2A69B765710005", "7F00000100002A9F0000000000014D17", 1),
        sent(queue, 17.0, "7F0000010E2C4E0E2F2A69B7667D0006", "7F00000100002A9F0000000000014E24", 2),
    ]
    assert SendStatuses(probes).mqadmin_text() == golden("sendMsgStatus", "ok")


def test_cluster_rt() -> None:
    probed = ProbedBroker("DefaultCluster", "broker-a", [sent(QUEUES[0], 90.0), sent(QUEUES[0], 20.0)])
    lines = golden("clusterRT", "seconds-8").splitlines(keepends=True)
    assert BrokerTimes([probed], 2, None, 0).mqadmin_text() == "".join(lines[:2])
    logged = BrokerTimes([probed], 2, "east", 1795264619000).mqadmin_text()
    assert logged == "2026-11-21 20:36:59|east|DefaultCluster|broker-a|20\n"


def test_a_broker_that_cannot_be_probed_has_a_row_that_says_why() -> None:
    times = BrokerTimes([ProbedBroker("C", "broker-b", [], "down")], 5, None, 0)
    assert (times.rows()[0].fail_count, times.problem()) == (5, "the broker: down")


def test_query_msg_trace_by_id() -> None:
    record = TraceRecord(trace.PUBLISHED, "ID", 1795264619000, "TracedProducerGroup", cost_ms=16, success=True)
    found = [FoundTrace(record, "127.0.0.1:51538")]
    assert MessageTrace(found).mqadmin_text() == golden("queryMsgTraceById", "ok")


def test_traces_of_consumers_stand_by_group_and_what_they_wrote_before_is_one_step_with_what_they_wrote_after() -> None:
    before = TraceRecord(trace.DELIVERED, "ID", 1000, "G", "REQUEST", retry_times=1)
    after = TraceRecord(trace.CONSUMED, "ID", 1005, "G", "REQUEST", cost_ms=5, success=False, context_code=2)
    lost = TraceRecord(trace.DELIVERED, "ID", 2000, "H", "OTHER", retry_times=0)
    traces = MessageTrace([FoundTrace(record, "h:1") for record in (after, lost, before)])
    assert [(row.kind, row.time_ms, row.outcome) for row in traces.rows()] == [
        ("consumed", 1000, "exception, retry 1"),
        ("delivered", 2000, "no outcome yet"),
    ]
    heading, line, end = traces.mqadmin_text().split("\n", 2)
    assert heading.split() == ["#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"]
    assert line.split() == ["Sub", "G", "h", "1970-01-01", "00:00:01", "5ms", "failed"]
    assert end == "\n"


def test_monitoring_says_what_mqadmin_logs() -> None:
    group = Monitored("G", [TopicLag("T", 7, 4, 1500)], True, {"c": ["c MessageQueue [] can't lock for a while, 1ms"]})
    shown = MonitorRound([group])
    rule = "[MONITOR] " + "=" * 41
    assert shown.mqadmin_text().splitlines() == [
        f"{rule}beginRound",
        "[MONITOR] reportUndoneMsgs: UndoneMsgs [consumerGroup=G, topic=T, undoneMsgsTotal=7, undoneMsgsSingleMQ=4, "
        "undoneMsgsDelayTimeMills=1500]",
        "[MONITOR]  [NOTIFY] reportConsumerRunningInfo: ConsumerGroup: G, Subscription different",
        "[MONITOR]  [NOTIFY] reportConsumerRunningInfo: ConsumerGroup: G, ClientId: c, "
        "c MessageQueue [] can't lock for a while, 1ms",
        "",
        f"{rule}endRound",
    ]
    (row,) = shown.rows()
    assert (row.lag_count, row.lag_count_max, row.behind_ms, len(row.problems)) == (7, 4, 1500, 2)
