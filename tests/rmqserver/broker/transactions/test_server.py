"""Transactions of a whole broker over the wire: its tasks, its answers, its files, a kill and a stop."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.sending import COMMIT, ROLLBACK, UNKNOWN, EndTransactionHeader, SendHeaderV2
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import decode_record_untrusted
from rmqproto.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rmqproto.wire.command import Command
from tests.rmqserver.broker.golden_state import produce
from tests.rmqserver.broker.messaging import bodies, pull, stored, text
from tests.support.servers import Server, sets, until
from tests.support.wire import Wire

GROUP = "TransProducerGroup"
OFTEN = sets(
    "transactionTimeOut=100", "transactionCheckInterval=50",
    "transactionCheckMax=1000000",  # nothing is given up, however slow the machine
    "transactionOpBatchInterval=50", "transactionMetricFlushInterval=50", "flushConsumerOffsetInterval=50",
)  # fmt: skip
NEVER = sets("transactionCheckInterval=3600000", "transactionOpBatchInterval=3600000")

Start = Callable[..., Server]


def send_half(wire: Wire, body: bytes) -> Command:
    properties = text(TRAN_MSG="true", PGROUP=GROUP, UNIQ_KEY=body.hex())
    header = SendHeaderV2(
        producer_group=GROUP, topic="TransTopic", default_topic="TBW102", default_topic_queue_nums=4, queue_id=1,
        sys_flag=4, born_timestamp=time.time_ns() // 1_000_000, properties=properties,
    )  # fmt: skip
    answer = wire.ask(R.SEND_MESSAGE_V2, header, body)
    assert answer.code == 0, answer.remark
    return answer


def ending(half: Command, decision: int) -> EndTransactionHeader:
    """The request that ends a transaction, from the answer to its send or from a check."""
    is_check = half.code == R.CHECK_TRANSACTION_STATE
    return EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=int(half.ext["tranStateTableOffset" if is_check else "queueOffset"]),
        commit_log_offset=int(half.ext["commitLogOffset"])
        if is_check
        else parse_offset_id_untrusted(half.ext["msgId"]).log_offset,
        commit_or_rollback=decision,
        from_transaction_check=is_check,
        msg_id=half.ext["transactionId"],
    )


def table(path: Path) -> str:
    """The file's text; empty for the moment in which it has been moved to its copy and the new file is not there
    yet."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def test_committed_at_once_rolled_back_and_by_a_check(start_standalone: Start) -> None:
    server = start_standalone(*OFTEN)
    with Wire(server.broker_addr) as wire:
        produce(wire, GROUP)
        committed, rolled_back, unknown = (send_half(wire, body) for body in (b"commit", b"rollback", b"unknown"))
        assert wire.ask(R.END_TRANSACTION, ending(committed, COMMIT)).code == 0
        answer = wire.ask(R.END_TRANSACTION, ending(rolled_back, ROLLBACK))
        assert (answer.code, answer.remark) == (0, "not set any response code")  # as Apache's 5.5.0 says
        assert wire.ask(R.END_TRANSACTION, ending(unknown, 5)).code == ResponseCode.SYSTEM_ERROR
        wire.tell(R.END_TRANSACTION, ending(unknown, UNKNOWN))
        check = wire.receive()
        assert (check.code, decode_record_untrusted(check.body).body) == (R.CHECK_TRANSACTION_STATE, b"unknown")
        wire.tell(R.END_TRANSACTION, ending(check, COMMIT))
        until(lambda: len(stored(wire, "TransTopic", 1)) == 2)
        assert bodies(pull(wire, "TransTopic", 1)) == [b"commit", b"unknown"]
        offsets = server.store_dir / "config/consumerOffset.json"
        half_key = f"{TRANSACTION_HALF_TOPIC}@{TRANSACTION_GROUP}"

        def is_all_dealt_with() -> bool:
            end = wire.ask(R.GET_MAX_OFFSET, {"topic": TRANSACTION_HALF_TOPIC, "queueId": "0"}).ext["offset"]
            return f'"{half_key}":{{\n\t\t\t0:{end}\n' in table(offsets)

        until(is_all_dealt_with)
        metrics = server.store_dir / "config/transactionMetrics"
        until(
            lambda: (
                json.loads(table(metrics) or "{}").get("transactionCount", {}).get("TransTopic", {}).get("count") == 0
            )
        )


def test_kill_keeps_what_is_open_and_asks_for_nothing_else(start_standalone: Start) -> None:
    server = start_standalone(*NEVER)
    with Wire(server.broker_addr) as wire:
        wire.ask(R.END_TRANSACTION, ending(send_half(wire, b"commit"), COMMIT))
        send_half(wire, b"open")
    topics = server.store_dir / "config/topics.json"
    until(lambda: "TransTopic" in table(topics))
    server.stop(signal.SIGKILL)
    server = start_standalone(*OFTEN, "--data", server.store_dir)
    with Wire(server.broker_addr) as wire:
        produce(wire, GROUP)
        check = wire.receive()
        assert decode_record_untrusted(check.body).body == b"open"
        assert wire.ask(R.END_TRANSACTION, ending(check, COMMIT)).code == 0
        assert bodies(pull(wire, "TransTopic", 1)) == [b"commit", b"open"]


def test_clean_stop_writes_op_messages_and_progress(start_standalone: Start) -> None:
    server = start_standalone(*NEVER)
    with Wire(server.broker_addr) as wire:
        wire.ask(R.END_TRANSACTION, ending(send_half(wire, b"commit"), COMMIT))
        send_half(wire, b"open")
    assert server.stop() == 0
    offsets = (server.store_dir / "config/consumerOffset.json").read_text()
    assert f'"{TRANSACTION_HALF_TOPIC}@{TRANSACTION_GROUP}":{{\n\t\t\t0:1\n' in offsets
    server = start_standalone(*NEVER, "--data", server.store_dir)
    with Wire(server.broker_addr) as wire:
        assert [op.body for op in stored(wire, TRANSACTION_OP_TOPIC)] == [b"0,"]
