"""Recorded exchanges of a real Apache RocketMQ 5.5.0, to be played against ours (``tests/golden/frames.jsonl.xz``), and
which of them were played."""

import contextlib
import functools
import json
import lzma
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqproto.errors import ProtocolError
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, decode_frame_untrusted

FILE = Path(__file__).parent.parent / "golden/frames.jsonl.xz"


_played: set[str] = set()


def played() -> set[str]:
    """Names of the exchanges whose request or answer a running test has read."""
    return _played


@dataclass(frozen=True)
class Exchange:
    """``name`` is code, name and number: ``105-GET_ROUTEINFO_BY_TOPIC/01``. ``answer`` is None for a oneway request."""

    name: str
    recorded_request: bytes
    recorded_answer: Command | None

    @property
    def request(self) -> bytes:
        self._is_played()
        return self.recorded_request

    @property
    def answer(self) -> Command | None:
        self._is_played()
        return self.recorded_answer

    def _is_played(self) -> None:
        if "PYTEST_CURRENT_TEST" in os.environ:  # reads while tests are collected are no plays
            _played.add(self.name)


@functools.cache
def _frames() -> dict[str, bytes]:
    with lzma.open(FILE, "rt") as lines:
        return {frame["source"]: bytes.fromhex(frame["hex"]) for frame in map(json.loads, lines)}


def exchange(name: str) -> Exchange:
    """The exchange of that name. KeyError if there is none."""
    answer = _frames().get(f"apache/{name}/response")
    return Exchange(name, _frames()[f"apache/{name}/request"], decode_frame_untrusted(answer) if answer else None)


def exchanges(code: int) -> list[Exchange]:
    """All exchanges of a request code, in the order of their numbers."""
    start, end = f"apache/{code}-", "/request"
    found = [source for source in _frames() if source.startswith(start) and source.endswith(end)]
    assert found, f"no exchange of code {code}"
    return [exchange(source.removeprefix("apache/").removesuffix(end)) for source in sorted(found)]


def names() -> list[str]:
    """The names of all exchanges."""
    requests = (source for source in _frames() if source.startswith("apache/") and source.endswith("/request"))
    return [source.removeprefix("apache/").removesuffix("/request") for source in requests]


def codes() -> dict[int, str]:
    """Every request code with recorded exchanges, and its name."""
    folders = {source.split("/")[1] for source in _frames() if source.startswith("apache/")}
    return {int(code): name for code, _, name in (folder.partition("-") for folder in folders) if code.isdecimal()}


def said(answer: Command | None) -> Any:
    """The parts of an answer to compare with Apache's: code, remark, ext fields and body. A JSON body is compared by
    its members. The server's language and the codec are left out. An absent remark equals an empty one, because binary
    headers do not tell them apart."""
    if answer is None:
        return None
    body: Any = answer.body
    if body[:1] in (b"{", b"["):
        with contextlib.suppress(ProtocolError):  # a message's body may begin like JSON
            body = fastjson.parse_untrusted(body)
    return {"code": answer.code, "remark": answer.remark or "", "ext": answer.ext, "body": body}
