"""A network that can be cut, on one machine and without privileges. Servers advertise addresses of a proxy, which knows
the processes at both ends of each connection.

    broker ──> 127.0.0.12:10911 ══ proxy ══> 127.0.0.1:10911
               as it is advertised           where that broker listens

Each member is reached at a loopback address of its own. The kernel tells which process made a connection, so one call
cuts a member from all others, whichever side connected. A cut is silence, as in a real network: no data, end or reset
of a connection passes. After the heal all of it arrives, if anybody still waits. One thing differs from a real network:
a new connection during a cut succeeds, and then hears nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Self

import trio

from tests.support.connection_owner import inode_of_peer, inodes_of

RECEIVE_BYTES = 1 << 16
LENGTH_BYTES = 4


class CutNetwork:
    """Runs in a thread of its own from entry to exit. ``renamed`` maps addresses that servers tell to addresses of the
    same length that others are told instead. It is for servers whose advertised address cannot be set."""

    def __init__(self, renamed: Mapping[str, str] | None = None) -> None:
        self.renamed = dict(renamed or {})
        self._cut: dict[str, int] = {}
        """Ids of the cut processes, by the host at which others reach them."""
        self._connections: set[_Connection] = set()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        trio.from_thread.run_sync(self._nursery.cancel_scope.cancel, trio_token=self._token)
        self._thread.join()

    def lead(self, host: str, to: str, port: int = 0, *, has_frames: bool = True) -> str:
        """Returns the address at which others reach the server that listens at ``to``, now or later. ``has_frames``: it
        speaks the remoting protocol, in which addresses are renamed."""
        return trio.from_thread.run(self._lead, host, port, to, has_frames, trio_token=self._token)

    def cut(self, host: str, pid: int) -> None:
        """Cuts off the process that others reach at ``host`` from everything."""
        self._change(lambda: self._cut.update({host: pid}))

    def heal(self, host: str) -> None:
        self._change(lambda: self._cut.pop(host, None))

    def _change(self, change: Callable[[], object]) -> None:
        def changed() -> None:
            change()
            for connection in self._connections:
                self._hold(connection)

        trio.from_thread.run_sync(changed, trio_token=self._token)

    # --- in the thread -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._is_ready.set()
            await trio.sleep_forever()

    async def _lead(self, host: str, port: int, to: str, has_frames: bool) -> str:
        (listener,) = await trio.open_tcp_listeners(port, host=host)

        async def serve(near: trio.SocketStream) -> None:
            await self._serve(near, host, to, has_frames)

        self._nursery.start_soon(trio.serve_listeners, serve, [listener])
        return f"{host}:{listener.socket.getsockname()[1]}"

    async def _serve(self, near: trio.SocketStream, host: str, to: str, has_frames: bool) -> None:
        connection = _Connection(host, inode_of_peer(near.socket))
        self._connections.add(connection)
        self._hold(connection)
        to_host, _, to_port = to.rpartition(":")
        renamed = self.renamed if has_frames else {}
        try:
            async with near:
                await connection.passes()
                async with await trio.open_tcp_stream(to_host, int(to_port)) as far, trio.open_nursery() as nursery:
                    nursery.start_soon(connection.pass_on, near, far, _Renaming(renamed))
                    nursery.start_soon(connection.pass_on, far, near, _Renaming(renamed))
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # one end is gone; both are closed
        finally:
            self._connections.discard(connection)

    def _hold(self, connection: _Connection) -> None:
        connection.hold(any(connection.is_of(host, pid) for host, pid in self._cut.items()))


class _Connection:
    def __init__(self, host: str, inode: str | None):
        self._host = host
        self._inode = inode
        self._is_held = False
        self._released = trio.Event()

    def is_of(self, host: str, pid: int) -> bool:
        return host == self._host or (self._inode is not None and self._inode in inodes_of(pid))

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held
        if not is_held:
            self._released.set()
            self._released = trio.Event()

    async def passes(self) -> None:
        """Returns once the connection is not held."""
        while self._is_held:
            await self._released.wait()

    async def pass_on(self, source: trio.SocketStream, sink: trio.SocketStream, renaming: _Renaming) -> None:
        """Data that is on its way during a cut arrives after the heal, and so does the end."""
        is_broken = False
        while True:
            try:
                data = await source.receive_some(RECEIVE_BYTES)
            except trio.BrokenResourceError:
                data, is_broken = b"", True
            await self.passes()
            if not data:
                break
            await sink.send_all(renaming.feed(data))
        if is_broken:
            raise trio.BrokenResourceError
        await sink.send_eof()


class _Renaming:
    """Renames addresses in whole frames, so that an address that arrives in two pieces is not missed."""

    def __init__(self, renamed: Mapping[str, str]):
        assert all(len(own) == len(told) for own, told in renamed.items()), "or frames would have other lengths"
        self._renamed = [(own.encode(), told.encode()) for own, told in renamed.items()]
        self._received = b""

    def feed(self, data: bytes) -> bytes:
        if not self._renamed:
            return data
        self._received += data
        end = 0
        while len(self._received) >= end + LENGTH_BYTES:
            next_end = end + LENGTH_BYTES + int.from_bytes(self._received[end : end + LENGTH_BYTES], "big")
            if next_end > len(self._received):
                break
            end = next_end
        frames, self._received = self._received[:end], self._received[end:]
        for own, told in self._renamed:
            frames = frames.replace(own, told)
        return frames
