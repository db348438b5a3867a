"""Which process of this machine is at the other end of a connection. The kernel knows."""

import os
import socket
from pathlib import Path

import trio


def inode_of_peer(near: socket.socket | trio.socket.SocketType) -> str | None:
    """The inode of the socket at the other end of a connection on this machine; None if it is gone."""
    wanted = [_as_in_proc(near.getpeername()), _as_in_proc(near.getsockname())]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return f"socket:[{fields[9]}]"
    return None


def _as_in_proc(address: tuple[str, int]) -> str:
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}"


def inodes_of(pid: int) -> set[str]:
    """The inodes that the process has open; empty if it is gone."""
    found = set()
    try:
        for each in os.scandir(f"/proc/{pid}/fd"):
            try:
                found.add(os.readlink(each.path))
            except FileNotFoundError:
                continue
    except FileNotFoundError:
        return set()
    return found
