"""Requests that fail because somebody asked for it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, RefusedError, RequestTimeoutError
from tests.support import servers
from tests.support.servers import Fresh, Server, topic_config
from tests.support.wire import Wire

server = servers.of_module("--test-requests", "on")


@pytest.fixture
def admin(server: Server) -> Iterator[AdminClient]:
    with AdminClient(server.namesrv_addr, timeout_s=10) as client:
        yield client
        client.set_faults(server.broker_addr, ())


@pytest.fixture
def queue(server: Server, admin: AdminClient, fresh: Fresh) -> MessageQueue:
    topic = fresh("Faults")
    admin.create_topic(server.broker_addr, topic_config(topic))
    return MessageQueue(topic, "", 0)


def send(admin: AdminClient, server: Server, queue: MessageQueue) -> int:
    return admin.send_message(server.broker_addr, queue, Message(queue.topic, b"body")).queue_offset


def test_an_error_so_many_times_and_what_was_hit(server: Server, admin: AdminClient, queue: MessageQueue) -> None:
    rule = f"SEND_MESSAGE:error=SYSTEM_BUSY:remark=full:count=2:topic={queue.topic}"
    admin.set_faults(server.broker_addr, [rule])
    for _ in range(2):
        with pytest.raises(RefusedError, match="full") as refused:
            send(admin, server, queue)
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
    assert send(admin, server, queue) == 0
    (state,) = admin.faults(server.broker_addr)
    assert (state.rule, state.hits) == (rule, 2)


def test_a_rule_spares_other_topics_and_requests(server: Server, admin: AdminClient, queue: MessageQueue) -> None:
    admin.set_faults(server.broker_addr, ["SEND_MESSAGE:drop:topic=other", "HEART_BEAT:drop"])
    assert send(admin, server, queue) == 0


def test_a_delayed_request_is_done_when_its_time_has_come(
    server: Server, admin: AdminClient, queue: MessageQueue
) -> None:
    admin.set_faults(server.broker_addr, ["SEND_MESSAGE:delay=50ms:count=1"])
    started_s = time.monotonic()
    assert send(admin, server, queue) == 0
    assert time.monotonic() - started_s >= 0.05
    assert send(admin, server, queue) == 1


def test_a_delay_may_end_in_an_error(server: Server, admin: AdminClient, queue: MessageQueue) -> None:
    admin.set_faults(server.broker_addr, ["SEND_MESSAGE:delay=1ms:error=SYSTEM_BUSY"])
    with pytest.raises(RefusedError):
        send(admin, server, queue)


def test_a_lost_request_and_a_lost_answer(server: Server, admin: AdminClient, queue: MessageQueue) -> None:
    with AdminClient(server.namesrv_addr, timeout_s=0.1) as hasty:
        admin.set_faults(server.broker_addr, ["SEND_MESSAGE:drop:count=1"])
        with pytest.raises(RequestTimeoutError):
            send(hasty, server, queue)
        assert admin.max_offset(server.broker_addr, queue.topic, 0) == 0
        admin.set_faults(server.broker_addr, ["SEND_MESSAGE:lose-answer:count=1"])
        with pytest.raises(RequestTimeoutError):
            send(hasty, server, queue)
    assert admin.max_offset(server.broker_addr, queue.topic, 0) == 1


def test_a_disconnected_client_has_lost_what_it_asked(server: Server, admin: AdminClient, queue: MessageQueue) -> None:
    for rule in ("SEND_MESSAGE:disconnect:count=1", "SEND_MESSAGE:delay=1ms:disconnect:count=1"):
        admin.set_faults(server.broker_addr, [rule])
        with pytest.raises(ConnectError):
            send(admin, server, queue)
    assert send(admin, server, queue) == 0


def test_requests_to_the_nameserver_and_of_unknown_codes_go_wrong_too(server: Server, admin: AdminClient) -> None:
    admin.set_faults(server.broker_addr, ["GET_ROUTEINFO_BY_TOPIC:error=SYSTEM_BUSY:count=1", "*:error=1:count=2"])
    with pytest.raises(RefusedError) as refused:
        admin.topic_route("TBW102")
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    with Wire(server.broker_addr) as wire:
        assert wire.ask(4_321).remark == "a fault that was asked for"
        assert wire.ask(RequestCode.GET_BROKER_CONFIG).code == 1
        assert wire.ask(RequestCode.GET_BROKER_CONFIG).code == 0


def test_one_bad_rule_changes_nothing(server: Server, admin: AdminClient) -> None:
    admin.set_faults(server.broker_addr, ["HEART_BEAT:drop"])
    with pytest.raises(RefusedError, match="no-rule"):
        admin.set_faults(server.broker_addr, ["HEART_BEAT:disconnect", "no-rule"])
    assert [state.rule for state in admin.faults(server.broker_addr)] == ["HEART_BEAT:drop"]


def test_a_kept_store_serves_no_requests_for_tests_and_takes_faults_by_flag(
    start_standalone: Callable[..., Server], tmp_path: Path
) -> None:
    server = start_standalone("--fault", "GET_BROKER_CONFIG:error=SYSTEM_BUSY")
    with AdminClient(server.namesrv_addr) as admin:
        with pytest.raises(RefusedError, match="--test-requests on") as refused:
            admin.set_faults(server.broker_addr, ())
        assert refused.value.code == ResponseCode.NO_PERMISSION
        with pytest.raises(RefusedError):
            admin.broker_config(server.broker_addr)
