"""Calls that were made to a real proxy of Apache RocketMQ 5.5.0 get the same codes and words here."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmqserver.doors.grpc.codes import Code
from tests.rmqserver.doors.grpc.calls import Connect
from tests.support.grpc_client import GrpcClient, GrpcError

CALLS = json.loads((Path(__file__).parents[3] / "golden/grpc/calls.json").read_text())

NULL_POINTER = "the proxy fails with a null pointer; here it is served, or refused in words"
NO_JAVA = "the proxy tells a Java class and a line; here are the words alone"
ANY_LANGUAGE = "a client of a language that the proxy does not know cannot start there"
OWN_HANDLES = "the handle is that of another broker's message"
DIFFERENT = {
    ("context", "empty request", "ReceiveMessage"): NULL_POINTER,
    ("context", "not a protobuf message", "QueryRoute"): "UNKNOWN without a text says nothing",
    ("route", "retry topic", "QueryRoute"): "the topic is made by the group's first heartbeat, in whatever test",
    ("send", "retry topic", "SendMessage"): NULL_POINTER,
    ("send", "delay of 25 h", "SendMessage"): "it is 25 h after the recording",
    ("presence", "unknown group", "Heartbeat"): "this broker does not make groups by itself",
    ("send", "negative priority", "SendMessage"): NO_JAVA,
    ("telemetry", "no x-mq-language", "Telemetry"): ANY_LANGUAGE,
    ("telemetry", "unknown x-mq-language", "Telemetry"): ANY_LANGUAGE,
    ("telemetry", "x-mq-language DOT_NET", "Telemetry"): ANY_LANGUAGE,
    ("telemetry", "x-mq-language GOLANG", "Telemetry"): ANY_LANGUAGE,
    ("telemetry", "x-mq-language NODEJS", "Telemetry"): ANY_LANGUAGE,
    ("recall", "recall", "RecallMessage"): OWN_HANDLES,
    ("recall", "recall again", "RecallMessage"): OWN_HANDLES,
    ("recall", "handle of what never was", "RecallMessage"): OWN_HANDLES,
}
"""What is answered otherwise, and why."""


def _answers(client: GrpcClient, call: dict[str, Any]) -> tuple[list[list[str | None]], str]:
    """The statuses of the answers, and the text of a failed call."""
    path = call["rpc"] if call["rpc"].startswith("/") else ""
    stream = client.open(call["rpc"], path=path)
    told: list[list[str | None]] = []
    try:
        for at, request in enumerate(call["requests"]):
            stream.send(bytes.fromhex(request), is_last=at + 1 == len(call["requests"]))
        for answer in stream:
            status = getattr(answer, "status", None)
            has_status = status is not None and answer.HasField("status")
            told.append([Code(status.code).name, status.message] if has_status else [None, ""])
    except GrpcError as error:
        return told, error.text
    return told, ""


@pytest.mark.parametrize("scene", sorted({call["scene"] for call in CALLS}))
def test_a_scene_has_the_codes_and_words_of_the_proxy(scene: str, connect: Connect) -> None:
    clients: dict[str, GrpcClient] = {}
    wrong = []
    for call in (each for each in CALLS if each["scene"] == scene):
        if (scene, call["label"], call["rpc"]) in DIFFERENT:
            continue
        key = json.dumps(call["metadata"])
        if key not in clients:
            clients[key] = connect("")
            clients[key].metadata = call["metadata"]
        answers, details = _answers(clients[key], call)
        expected = [each for each in call["answers"] if each[0] is not None]
        if [each for each in answers if each[0] is not None] != expected or details != _details(call):
            wrong.append((call["label"], call["rpc"], answers, details, call["answers"], call["details"]))
    assert not wrong


def _details(call: dict[str, Any]) -> str:
    return "" if call["status"] == "CANCELLED" else call["details"]
