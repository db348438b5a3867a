"""Every recorded frame of real clients and a real 5.5.0, decoded and encoded again.

``tests/golden/frames.jsonl.xz`` has one line for each frame, with all its bytes as hex. Frames of clients other than
Apache's Java 5.5.0 also have the header that the client meant.
"""

import functools
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from rmqproto.headers.base import from_ext
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, FrameReader, HeaderCodec, decode_frame_untrusted, encode_frame
from rmqproto.wire.signing import SIGNATURE, signature

FILE = Path(__file__).parents[2] / "golden/frames.jsonl.xz"


@functools.cache
def frames() -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.open(FILE, "rt")]


def commands(only: str = "") -> list[tuple[str, bytes, Command]]:
    found = []
    for line in frames():
        if line["source"].startswith(only):
            data = bytes.fromhex(line["hex"])
            found.append((line["source"], data, decode_frame_untrusted(data)))
    assert found
    return found


def test_apaches_own_frames_come_out_byte_for_byte() -> None:
    """fastjson writes members in alphabetical order, and ext fields in the order of its map, which a dict keeps. Apache
    writes empty ext fields only sometimes, so only those are not compared."""
    for source, data, command in commands("apache/"):
        assert encode_frame(command)[8:] == data[8:].replace(b'"extFields":{},', b"", 1), source


def test_frames_of_every_other_client_keep_their_values() -> None:
    for source, _, command in commands():
        assert decode_frame_untrusted(encode_frame(command)) == command, source


def test_headers_are_read_as_their_clients_meant_them() -> None:
    for line in frames():
        meant = line.get("header")
        if meant is None:
            continue
        command = decode_frame_untrusted(bytes.fromhex(line["hex"]))
        assert (command.code, command.opaque, command.flag) == (meant["code"], meant["opaque"], meant["flag"])
        for name, value in (meant.get("extFields") or {}).items():
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value)
                assert command.ext[name] == text, line["source"]


def test_one_stream_of_all_of_them_falls_apart_into_the_same_frames() -> None:
    reader = FrameReader()
    stream = b"".join(data for _, data, _ in commands())
    got = []
    for start in range(0, len(stream), 1000):
        got += reader.feed(stream[start : start + 1000])
    assert got == [command for _, _, command in commands()]


def test_ext_fields_fit_their_typed_headers() -> None:
    """These are requests of real clients. A few are wrong on purpose; Apache's answer tells which."""
    answers = {s: c for s, _, c in commands("apache/") if s.endswith("/response")}
    for source, _, command in commands():
        header = REQUEST_HEADERS.get(command.code)
        if command.is_answer or header is None:
            continue
        answer = answers.get(source.removesuffix("/request") + "/response")
        if answer is None or answer.code == 0:
            ext = {k: v for k, v in command.ext.items() if v} if command.codec is HeaderCodec.ROCKETMQ else command.ext
            from_ext(ext, header)


def test_json_bodies_can_be_read() -> None:
    for source, _, command in commands():
        if command.body[:1] in (b"{", b"["):
            assert isinstance(fastjson.parse_untrusted(command.body), (dict, list)), source


@pytest.mark.parametrize("client", ["ali-ons", "librocketmq", "rocketmq-client-go", "rocketmq-nodejs"])
def test_signatures_of_real_clients(client: str) -> None:
    """They were made with testSecretKey. The C++ client signs with an empty key when it has none."""
    signed = [c for _, _, c in commands(client) if SIGNATURE in c.ext]
    assert signed
    for command in signed:
        secret = "testSecretKey" if command.ext.get("AccessKey") == "testAccessKey" else ""
        if secret:
            assert signature(command.ext, command.body, secret) == command.ext[SIGNATURE]
