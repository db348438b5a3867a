"""Every served request code with hostile fields and bodies gets an answer or a closed connection, and nothing else."""

import contextlib

import pytest

from rmqproto.codes import RESPONSE_FLAG, RequestCode
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from tests.hostile.conftest import Victim
from tests.hostile.hostile_requests import requests, services
from tests.support.wire import Wire

CASES = [(name, code) for name, service in services().items() for code in sorted(service.handlers)]
PIPELINED_MAX = 50
SILENT = {RequestCode.END_TRANSACTION}
"""Codes with requests that get no answer, as in Apache's broker: no client waits for the end of an unknown
transaction."""
PROBE_OPAQUE = 987_654_321
HOSTILE_VALUES = (
    "\\u0000", "../x", "x" * 5000, "1" + "0" * 30, "-5", "0", "1", str((1 << 31) - 1), str(-(1 << 31)),
    str((1 << 63) - 1), str(-(1 << 63)),
)  # fmt: skip


@pytest.mark.parametrize(("service", "code"), CASES, ids=lambda case: str(case))
def test_hostile_fields_and_bodies(victim: Victim, service: str, code: int) -> None:
    address = victim.broker_addr if service == "broker" else victim.namesrv_addr
    frames = list(requests(code))
    unanswered = 0
    wire = Wire(address)
    for frame in frames:
        try:
            wire.exchange(frame) if code not in SILENT else exchange_if_answered(wire, frame)
        except EOFError:
            unanswered += 1
            wire.close()
            wire = Wire(address)
    wire.close()
    assert unanswered <= len(frames) // 2, "what can be answered is answered"


def exchange_if_answered(wire: Wire, frame: bytes) -> None:
    """Sends the request with one of an unknown code behind it. The second's answer shows that no other answer will
    come."""
    wire.send(frame + encode_frame(Command(code=9999, opaque=PROBE_OPAQUE)))
    while wire.receive().opaque != PROBE_OPAQUE:
        pass


@pytest.mark.parametrize("service", ["namesrv", pytest.param("broker", marks=pytest.mark.slow)])
def test_settings_over_the_wire_are_checked_or_harmless(victim: Victim, service: str) -> None:
    """Tries every key with broken values, and with values that would stop a server that accepted them."""
    address, code, ask = {
        "broker": (victim.broker_addr, RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG),
        "namesrv": (victim.namesrv_addr, RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.GET_NAMESRV_CONFIG),
    }[service]
    with Wire(address) as wire:
        before = wire.ask(ask).body
        for line in before.decode().splitlines():
            key, _, value = line.partition("=")
            for hostile in HOSTILE_VALUES:
                wire.ask(code, body=f"{key}={hostile}\n".encode())
            wire.ask(code, body=f"{key}={value}\n".encode())
        assert wire.ask(ask).body == before


def test_answers_to_questions_that_were_never_asked_are_passed_over(victim: Victim) -> None:
    for address in (victim.broker_addr, victim.namesrv_addr):
        with Wire(address) as wire:
            for opaque in (0, 1, -1, 2**31 - 1):
                wire.send(encode_frame(Command(code=70_000, opaque=opaque, flag=RESPONSE_FLAG, body=b"{")))
            assert wire.ask(9999).code == 3


def test_a_consumer_that_answers_nonsense_troubles_only_the_one_who_asked(victim: Victim) -> None:
    """A code above 16 bits does not fit the binary header of the client that asked. It used to raise in the loop."""
    body = b'{"clientID":"c1","consumerDataSet":[{"groupName":"relay","subscriptionDataSet":[]}],"producerDataSet":[]}'
    with Wire(victim.broker_addr) as consumer, Wire(victim.broker_addr) as asker:
        assert consumer.ask(RequestCode.HEART_BEAT, body=body).code == 0
        ext = {"consumerGroup": "relay", "clientId": "c1"}
        question = Command(code=307, opaque=77, ext=ext, codec=HeaderCodec.ROCKETMQ)
        asker.send(encode_frame(question))
        asked = consumer.receive()
        while asked.code != 307:
            asked = consumer.receive()
        consumer.send(encode_frame(Command(code=70_000, opaque=asked.opaque, flag=RESPONSE_FLAG, body=b"\0")))
        assert asker.receive().code == 1
        assert consumer.ask(9999).code == 3


def test_many_hostile_requests_in_one_piece(victim: Victim) -> None:
    """The requests above, pipelined: a refused request does not affect its neighbours."""
    for service, code in CASES:
        if code in SILENT:
            continue
        address = victim.broker_addr if service == "broker" else victim.namesrv_addr
        frames = [frame for frame in requests(code) if len(frame) < 10_000][:PIPELINED_MAX]
        with Wire(address) as wire, contextlib.suppress(EOFError, ConnectionError):
            wire.send(b"".join(frames))
            for _ in frames:
                wire.receive()
