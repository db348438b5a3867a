"""kill -9 loses no message that was acknowledged to a client of gRPC."""

import signal
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import CLASSES
from tests.rmqserver.doors.grpc.calls import message_to
from tests.support import servers
from tests.support.grpc_client import GrpcClient
from tests.support.servers import topic_config

IN_FLIGHT, ANSWERED = 32, 100
TOPIC = "Killed"


def send_until_killed(running: servers.Server) -> set[bytes]:
    """Keeps many sends in flight, and kills the broker amid them; what it has acknowledged."""
    acked: set[bytes] = set()
    with GrpcClient(running.broker_addr) as client:
        open_calls, number = {}, 0
        while len(acked) < ANSWERED:
            while len(open_calls) < IN_FLIGHT:
                body, number = b"%d" % number, number + 1
                call = open_calls[body] = client.open("SendMessage")
                call.send(CLASSES["SendMessageRequest"](messages=[message_to(TOPIC, body)]), is_last=True)
            body = next(iter(open_calls))
            (answer,) = open_calls.pop(body)
            assert answer.status.code == Code.OK
            acked.add(body)
        running.stop(signal.SIGKILL)
        for body, call in open_calls.items():
            try:
                acked |= {body for answer in call if answer.status.code == Code.OK}
            except (EOFError, OSError):
                break
    return acked


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_what_was_acknowledged_is_there(tmp_path: Path, flush: str) -> None:
    running = servers.standalone(tmp_path, "--flush", flush)
    with AdminClient(running.namesrv_addr) as admin:
        admin.create_topic(running.broker_addr, topic_config(TOPIC))
    acked = send_until_killed(running)
    with servers.standalone(tmp_path, "--flush", flush) as again, AdminClient(again.namesrv_addr) as admin:
        queue = MessageQueue(TOPIC, "broker-a", 0)
        stored = [message.body for message in servers.all_of(admin, again.broker_addr, queue)]
    assert acked <= set(stored)
    assert len(stored) == len(set(stored))
