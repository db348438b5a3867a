"""The gate of ACL 1.0 judges recorded requests, which real clients signed."""

from __future__ import annotations

import contextlib
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from rmqproto.codes import RequestCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import NoFields, from_ext
from rmqproto.headers.table import REQUEST_HEADERS
from rmqproto.wire.command import Command, decode_frame_untrusted
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import SIGNATURE, sign
from rmqserver.auth.plain_acl.plain_gate import PlainGate
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from tests.rmqserver.auth.plain_acl.test_plain_files import write

GOLDEN = Path(__file__).parents[4] / "tests/golden/frames.jsonl.xz"


class Peer:
    address, real_address = "192.0.2.1:5", "127.0.0.1:5"


def refusal(gate: PlainGate, command: Command) -> str | None:
    request: Request[Any] = Request(
        code=command.code, opaque=1, header=NoFields(), version=command.version, body=command.body
    )
    with contextlib.suppress(ProtocolError):
        request.header = from_ext(command.ext, REQUEST_HEADERS.get(command.code, NoFields))
    try:
        gate.admit(request, command.ext, Peer())  # type: ignore[arg-type]
    except Refused as refused:
        return refused.remark
    return None


@pytest.mark.parametrize("client", ["ali-ons", "librocketmq", "rocketmq-client-go", "rocketmq-nodejs"])
def test_requests_of_real_clients_in_go_cpp_and_node_pass_and_changed_ones_do_not(tmp_path: Path, client: str) -> None:
    """Node signs OnsChannel; C++ signs with an empty key where it has none. Each signs its fields in an order of its
    own."""
    account = "accounts: [{accessKey: testAccessKey, secretKey: %s, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}]"
    for home, secret in (("right", "testSecretKey"), ("wrong", "anotherSecret")):
        write(tmp_path / home, "plain_acl.yml", account % secret)
    right, wrong = (PlainGate(str(tmp_path / home), "c", frozenset()) for home in ("right", "wrong"))
    lines = map(json.loads, lzma.decompress(GOLDEN.read_bytes()).splitlines())
    frames = [bytes.fromhex(line["hex"]) for line in lines if line["source"].startswith(client)]
    signed = 0
    for command in map(decode_frame_untrusted, frames):
        if command.is_answer or SIGNATURE not in command.ext:
            continue
        if command.ext.get("AccessKey") != "testAccessKey":
            assert "No acl config for" in (refusal(right, command) or "")
            continue
        signed += 1
        assert refusal(right, command) is None, command
        failed = "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=testAccessKey"
        assert refusal(wrong, command) == failed
        command.ext["topic" if "topic" in command.ext else "b"] = "another"
        assert refusal(right, command) == failed
    assert signed or client == "librocketmq"


def test_a_header_that_cannot_be_read_never_passes(tmp_path: Path) -> None:
    write(tmp_path, "plain_acl.yml", "accounts: [{accessKey: testAccessKey, secretKey: testSecretKey}]")
    ext: dict[str, str] = {"consumerGroup": "g"}
    sign(ext, b"", Credentials("testAccessKey", "testSecretKey"))
    gate = PlainGate(str(tmp_path), "c", frozenset())
    for code in (RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT):
        assert refusal(gate, Command(code=code, ext=ext)) is not None
