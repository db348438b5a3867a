"""What a trio stream's socket takes without a wait. A task's turn takes several times as long as the system call."""

from __future__ import annotations

import contextlib
import os
import socket

import trio

PARTS_MAX = 1024
"""That the kernel takes at a time (``IOV_MAX``)."""

Part = bytes | memoryview
"""Of what is sent."""


def take_much(stream: trio.SocketStream) -> None:
    """Its socket takes as much as there is room for. Trio sets its streams to 16 KiB that are not sent yet, which is
    for those who would rather have it in their own hands: each write is then of 128 KiB, and the next comes at once."""
    with contextlib.suppress(OSError):  # it is gone, or no connection of TCP
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)  # 0: what the system says, mostly no bound


def write_now(stream: trio.SocketStream, parts: list[Part]) -> int:
    """How many bytes of them are sent; nobody else may be sending. 0 also where the connection is broken: whoever waits
    for it, to send the rest, hears of that."""
    try:
        return write_some(stream, parts)
    except OSError:
        return 0


def write_some(stream: trio.SocketStream, parts: list[Part]) -> int:
    """As ``write_now``, but OSError where it is broken."""
    try:
        return os.writev(stream.socket.fileno(), parts[:PARTS_MAX]) if parts else 0
    except BlockingIOError:
        return 0


async def write_all(stream: trio.SocketStream, parts: list[Part]) -> None:
    """OSError."""
    while parts:
        parts = behind(parts, write_some(stream, parts))
        if parts:  # it is full
            await trio.lowlevel.wait_writable(stream.socket)
        else:
            await trio.lowlevel.checkpoint()


def behind(parts: list[Part], sent: int) -> list[Part]:
    """What is left of them."""
    at = 0
    while at < len(parts) and sent >= len(parts[at]):
        sent -= len(parts[at])
        at += 1
    return [memoryview(parts[at])[sent:], *parts[at + 1 :]] if sent else parts[at:]
