"""A real broker whose limits are set while it runs: requests and connections past a limit are refused or closed, and no
others."""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rmqproto.codes import ONEWAY_FLAG, RequestCode, ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.java import java_properties
from rmqproto.wire.command import Command, encode_frame
from tests.support import servers
from tests.support.servers import Fresh, Server, until
from tests.support.wire import Wire

DEFAULTS = {
    "maxConnectionsPerAddress": "0",
    "maxReceivedBytesPerConnection": "0",
    "maxUnreadBytesPerConnection": "67108864",
    "maxRequestsInFlightPerConnection": "0",
    "maxSendRatePerTopic": "0",
    "maxPullRatePerTopic": "0",
}


limited = servers.of_module("--set", "maxConnectionsPerAddress=1000")


@pytest.fixture
def admin(limited: Server) -> Iterator[Wire]:
    with Wire(limited.broker_addr) as wire:
        yield wire
        assert change(wire, **DEFAULTS).code == 0


def change(admin: Wire, **settings: str) -> Command:
    return admin.ask(RequestCode.UPDATE_BROKER_CONFIG, body=java_properties.render(settings).encode())


def is_served(wire: Wire) -> bool:
    """Whether the broker still answers; False if it closed the connection."""
    try:
        return wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == 0
    except (EOFError, OSError):
        return False


def send(topic: str, body: bytes = b"x") -> bytes:
    header = SendHeaderV2(producer_group="p", topic=topic, queue_id=0, born_timestamp=1)
    return encode_frame(Command(code=RequestCode.SEND_MESSAGE_V2, ext=to_ext(header), body=body))


def pull(topic: str, *, hold_ms: int = 0, queue_offset: int = 0, flag: int = 0) -> bytes:
    header = PullHeader(
        consumer_group="g", topic=topic, queue_id=0, queue_offset=queue_offset, max_msg_nums=1,
        sys_flag=6 if hold_ms else 4, suspend_timeout_millis=hold_ms, subscription="*",
    )  # fmt: skip
    return encode_frame(Command(code=RequestCode.PULL_MESSAGE, ext=to_ext(header), flag=flag))


def test_connections_of_one_address(limited: Server, admin: Wire) -> None:
    until(lambda: change(admin, maxConnectionsPerAddress="3").code == 0)
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(limited.broker_addr)) for _ in range(2)]
        assert all(map(is_served, wires))
        assert not is_served(stack.enter_context(Wire(limited.broker_addr)))
        host, _, port = limited.broker_addr.rpartition(":")
        with socket.create_connection((host, int(port)), 30, source_address=("127.0.0.2", 0)) as other:
            other.sendall(encode_frame(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO)))
            assert other.recv(100)
        wires[0].close()
        until(lambda: is_served(stack.enter_context(Wire(limited.broker_addr))))
    assert is_served(admin)
    assert "reason=maxConnectionsPerAddress max=3" in limited.log_tail()


def test_the_nameserver_of_a_standalone_has_the_limit_too(limited: Server, admin: Wire) -> None:
    with Wire(limited.namesrv_addr) as namesrv:
        listed = namesrv.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()
        assert "maxConnectionsPerAddress=1000\n" in listed
        refused = namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"maxSendRatePerTopic=5\n")
        assert (refused.code, refused.remark) == (
            ResponseCode.INVALID_PARAMETER, "maxSendRatePerTopic: this server has no such limit",
        )  # fmt: skip


def test_requests_in_flight(limited: Server, admin: Wire, fresh: Fresh) -> None:
    """Held pulls are in flight. Requests that are answered at once, refused, or oneway are not."""
    topic = fresh("InFlight")
    admin.create_topic(topic, 1)
    assert change(admin, maxRequestsInFlightPerConnection="2").code == 0
    with Wire(limited.broker_addr) as wire:
        for _ in range(10):
            assert is_served(wire)
            assert wire.exchange(pull(topic, flag=ONEWAY_FLAG) + send("NoSuch\1Topic")).code != 0
        wire.send(pull(topic, hold_ms=60_000) * 2)
        for _ in range(5):
            refused = wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
            assert refused.code == ResponseCode.SYSTEM_BUSY
            assert refused.remark == (
                "[OVERLOAD]system busy, start flow control for a while: 2 requests of this connection wait for their "
                "answers (maxRequestsInFlightPerConnection)"
            )
        assert admin.exchange(send(topic)).code == 0
        assert [wire.receive().code for _ in range(2)] == [0, 0]
        for _ in range(10):  # their answers are in two parts, header and records
            assert wire.exchange(pull(topic)).code == 0
        wire.send(pull(topic, hold_ms=60_000, queue_offset=1))
        assert is_served(wire)


def test_bytes_received_and_not_served(limited: Server, admin: Wire) -> None:
    frame = encode_frame(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, body=bytes(3 << 20)))
    with Wire(limited.broker_addr) as patient:
        patient.send(frame[: 2 << 20])
        patient.send(frame[2 << 20 :])
        assert patient.receive().code == 0
    assert change(admin, maxReceivedBytesPerConnection=str(1 << 20)).code == 0
    with Wire(limited.broker_addr) as wire:
        small = encode_frame(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, body=bytes(1 << 19)))
        assert wire.exchange(small).code == 0
        with contextlib.suppress(ConnectionError):
            wire.send(frame[: 2 << 20])
        with pytest.raises(EOFError):
            wire.receive()
    assert is_served(admin)


def test_bytes_answered_and_not_read(limited: Server, admin: Wire, fresh: Fresh) -> None:
    """One message of 3 MB wakes eight held pulls at once: 24 MB, of which the kernel takes some."""
    topic = fresh("Unread")
    admin.create_topic(topic, 1)
    for queue_offset, limit in enumerate((None, str(1 << 20))):
        if limit is not None:
            assert change(admin, maxUnreadBytesPerConnection=limit).code == 0
        with Wire(limited.broker_addr) as late:
            late.send(pull(topic, hold_ms=60_000, queue_offset=queue_offset) * 8)
            assert is_served(late)  # all eight pulls have arrived
            assert admin.exchange(send(topic, body=bytes(3 << 20))).code == 0
            if limit is None:
                assert [late.receive().code for _ in range(8)] == [0] * 8
            else:
                with pytest.raises(EOFError):
                    list(iter(late.receive, None))


def test_the_rates_of_topics(limited: Server, admin: Wire, fresh: Fresh) -> None:
    topic, other = fresh("Rate"), fresh("Rate")
    for name in (topic, other):
        admin.create_topic(name, 1)
    rates = f"1000000;{topic}=1"
    assert change(admin, maxSendRatePerTopic=rates, maxPullRatePerTopic=rates).code == 0

    def codes(frame: bytes) -> set[int]:
        with Wire(limited.broker_addr) as wire:
            wire.send(frame * 10)
            return {wire.receive().code for _ in range(10)}

    assert codes(send(topic)) == {0, ResponseCode.SYSTEM_BUSY}
    assert codes(pull(topic)) == {0, ResponseCode.FLOW_CONTROL}
    assert codes(send(other)) == codes(pull(other)) == {0}
    assert f"topic {topic} has had its 1 requests of this second (maxSendRatePerTopic)" in limited.log_tail()
    assert change(admin, maxSendRatePerTopic="0").code == 0
    assert codes(send(topic)) == {0}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("maxConnectionsPerAddress", "many"),
        ("maxConnectionsPerAddress", "-1"),
        ("maxReceivedBytesPerConnection", "1000"),
        ("maxUnreadBytesPerConnection", "0"),
        ("maxSendRatePerTopic", "often"),
        ("maxRequestRatePerUser", "5"),  # authentication is off
    ],
)
def test_a_bad_limit_is_refused_and_never_passed_over(admin: Wire, key: str, value: str) -> None:
    refused = change(admin, **{key: value})
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert (refused.remark or "").startswith(f"{key}={value}: ")


def test_limits_are_listed_once_they_say_something(admin: Wire) -> None:
    def listed() -> dict[str, str]:
        return java_properties.parse_untrusted(admin.ask(RequestCode.GET_BROKER_CONFIG).body)

    assert change(admin, **DEFAULTS).code == 0
    assert not DEFAULTS.keys() & listed().keys()
    assert change(admin, maxSendRatePerTopic="5;a=1").code == 0
    assert listed()["maxSendRatePerTopic"] == "5;a=1"
