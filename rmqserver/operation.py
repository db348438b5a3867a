"""What every operation knows, whichever door a request came through: the peer that asks, and how it is refused. No
frames: a door renders them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rmqproto.headers.base import Header

SEE_FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""The end of several of Apache's remarks (``FAQUrl``)."""

UNSET_REMARK = "not set any response code"
"""The remark of a successful answer in which Apache's handler sets none. Only the code indicates success."""


GoOn = Callable[[], None]

Guarded = Callable[[GoOn], None]
"""Lets a request go on later, if its peer is still there; what is raised then becomes its answer."""


class PeerAnswer(Protocol):
    """What a peer answers to a question of ours."""

    @property
    def code(self) -> int: ...

    @property
    def remark(self) -> str | None: ...

    @property
    def body(self) -> bytes: ...


OnPeerAnswer = Callable[[PeerAnswer | None], None]
"""Takes the answer; None if it is late, or the peer is gone."""


class Peer(Protocol):
    """One client, for as long as it is connected. It is a key: two connections of one client are two peers."""

    @property
    def address(self) -> str:
        """``host:port`` of the client, behind a load balancer the one that it names."""
        ...

    @property
    def born_host(self) -> bytes:
        """The client's record host field."""
        ...

    @property
    def local_addr(self) -> str:
        """``host:port`` on which it reached us."""
        ...

    @property
    def local_host(self) -> bytes:
        """The same as a record host field."""
        ...

    @property
    def closed(self) -> bool: ...

    @property
    def is_listening(self) -> bool:
        """Whether it would hear what it is told now."""
        ...

    def notify(self, code: int, header: Header, body: bytes = b"") -> None:
        """Tells it something that wants no answer."""
        ...

    def ask(self, code: int, header: Header, body: bytes, on_answer: OnPeerAnswer, timeout_s: float) -> None:
        """Asks it something. ``on_answer`` is called once, at the latest after ``timeout_s``."""
        ...

    def flush(self) -> None:
        """Sends what it was given, before the end of the round."""
        ...

    def close(self, reason: str) -> None:
        """Ends its connection; another call does nothing."""
        ...


class Refused(Exception):
    """Raised by an operation or a gate: the request is answered with ``code``, a ResponseCode, and ``remark``, and
    ``header`` if there is one."""

    def __init__(self, code: int, remark: str | None, header: Header | None = None):
        super().__init__(code, remark)
        self.code = code
        self.remark = remark
        self.header = header
