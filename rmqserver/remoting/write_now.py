"""Writes to a trio stream's socket without waiting. A task's turn takes several times as long as the system call."""

from __future__ import annotations

import contextlib
import os
import socket

import trio

PARTS_MAX = 1024
"""Parts that the kernel takes at a time (``IOV_MAX``)."""

Part = bytes | memoryview
"""Bytes to send."""


def take_much(stream: trio.SocketStream) -> None:
    """Makes the socket take as much as it has room for. Trio limits its streams to 16 KiB of unsent bytes, so that the
    program keeps the rest. Without that limit, each write takes 128 KiB, and the next one can follow at once."""
    with contextlib.suppress(OSError):  # it is gone, or not a TCP connection
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)  # 0: the system's value, usually no limit


def write_now(stream: trio.SocketStream, parts: list[Part]) -> int:
    """Sends what it can, and returns the number of bytes; nothing else may be sending. 0 also if the connection is
    broken: the caller learns that when it waits to send the rest."""
    try:
        return write_some(stream, parts)
    except OSError:
        return 0


def write_some(stream: trio.SocketStream, parts: list[Part]) -> int:
    """As ``write_now``, but OSError if the connection is broken."""
    try:
        return os.writev(stream.socket.fileno(), parts[:PARTS_MAX]) if parts else 0
    except BlockingIOError:
        return 0


async def write_all(stream: trio.SocketStream, parts: list[Part]) -> None:
    """Writes all parts, and waits while the socket is full. OSError."""
    while parts:
        parts = behind(parts, write_some(stream, parts))
        if parts:  # the socket is full
            await trio.lowlevel.wait_writable(stream.socket)
        else:
            await trio.lowlevel.checkpoint()


def behind(parts: list[Part], sent: int) -> list[Part]:
    """The parts that are left after ``sent`` bytes."""
    at = 0
    while at < len(parts) and sent >= len(parts[at]):
        sent -= len(parts[at])
        at += 1
    return [memoryview(parts[at])[sent:], *parts[at + 1 :]] if sent else parts[at:]
