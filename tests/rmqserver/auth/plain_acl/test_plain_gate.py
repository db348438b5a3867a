"""The gate of plain_acl.yml, and its white addresses."""

import contextlib
import ipaddress
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqproto.codes import RequestCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import NoFields, from_ext
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire.command import Command, decode_frame_untrusted
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import SIGNATURE, sign
from rmqserver.auth.plain_acl.plain_gate import PlainGate
from rmqserver.auth.plain_acl.white_addresses import WhiteAddresses
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


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", "", "10.0.0.1 ::1"),
        ("*", "10.0.0.1 ::1", ""),
        ("*.*.*.*", "10.0.0.1 ::1", ""),
        ("10.0.0.5", "10.0.0.5", "10.0.0.50 10.0.0.6 ::5"),
        ("10.0.0.5,10.0.1.7", "10.0.0.5 10.0.1.7", "10.0.0.7 10.0.1.5"),
        ("10.0.0.{5, 7}", "10.0.0.5 10.0.0.7", "10.0.0.6 10.0.1.5"),
        ("10.0.103.*", "10.0.103.0 10.0.103.255", "10.0.104.1 11.0.103.1 10.0.10.3"),
        ("10.0.*", "10.0.0.1 10.0.255.255", "10.1.0.1"),
        ("10.0.*.*", "10.0.0.1 10.0.255.255", "10.1.0.1"),
        ("10.0.0.1-9", "10.0.0.1 10.0.0.9", "10.0.0.0 10.0.0.10"),
        ("10.0.1-20.*", "10.0.1.7 10.0.20.0", "10.0.0.7 10.0.21.0"),
        ("10.0.1-20.5", "10.0.2.5", "10.0.2.6"),  # Apache ignores every part behind the range
        ("5::7", "5::7 5:0:0:0:0:0:0:7", "5::8 6::7 10.0.0.5"),
        ("5:7:6:1-200:*", "5:7:6:1:: 5:7:6:200:1:2:3:4", "5:7:6:201:: 5:7:6::"),
        ("5::7:{1,ac}", "5::7:1 5::7:AC", "5::7:2"),
        ("fe80::*", "fe80::1", "fe81::1"),
        ("::ffff:10.0.0.5", "::ffff:10.0.0.5 ::ffff:a00:5", "10.0.0.5 ::10.0.0.5 ::ffff:10.0.0.6"),
    ],
)
def test_what_a_pattern_matches(text: str, inside: str, outside: str) -> None:
    white = WhiteAddresses(text)
    assert [address for address in inside.split() if not white.has(address)] == []
    assert [address for address in outside.split() if white.has(address)] == []
    assert white.is_any == bool(inside)


@pytest.mark.parametrize(
    "text",
    ["10.0.0", "10.0.0.256", "10.0.0.9-1", "10.0.0.-5", "10.0.0.x", "10.0.0.1.2", "1:2:3", "1::2::3", "1:2:3:4:5:6:7:x",
     "10.0.0.{}", ",", "a.example", "10.0.0.1/8", "1:2:3:4:5:6:7:12345", "::ffff:10.0.0", "::10.0.0.5:7"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        WhiteAddresses(text)


@given(st.ip_addresses(), st.ip_addresses())
@example(ipaddress.IPv4Address("0.0.0.0"), ipaddress.IPv6Address("::ffff:0.0.0.0"))  # printed with dots since 3.13
@example(ipaddress.IPv6Address("::ffff:0.0.0.0"), ipaddress.IPv4Address("0.0.0.0"))
def test_an_address_matches_itself_alone(
    one: ipaddress.IPv4Address | ipaddress.IPv6Address, other: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> None:
    white = WhiteAddresses(str(one))
    assert white.has(str(one))
    assert white.has(str(other)) == (one == other)
