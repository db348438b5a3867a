"""A slave passes the connections of gRPC clients on to its master, byte for byte, as it forwards requests of the older
protocol (``forwarding``): after a handover, and after a killed master has come back, clients go on asking here until
they ask for routes again.

A PROXY header tells the master whose connection it is, and another slave that it must go no further. Policies judge the
address that reaches the broker. So a broker that asks for rights passes nothing on: whoever reaches a slave would
be let in as the slave is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.wire.proxy_header import line_of
from rmqserver.doors.grpc.held_hello import HeldHello
from rmqserver.doors.way_to_master import WayToMaster
from rmqserver.remoting.service import Service

if TYPE_CHECKING:
    from rmqproto.wire.frames import OnFrame
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.replicas.slave import Slave
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.outward import Outward


def may_pass_on(broker: Broker) -> bool:
    settings = broker.auth_settings
    return broker.config.forward_to_master_enable and not settings.is_authorizing and not settings.enforces_plain


class ToMaster(Service):
    """The service of the connections to the master. ``run`` is a task."""

    def __init__(self, broker: Broker, slave: Slave, nameservers: Outward | None):
        super().__init__("to-master", {})
        self.limits = broker.config
        self.idle_max_s = 0  # the client's own connection has a limit
        self._loop = broker.loop
        self._master = WayToMaster(broker.loop, slave, broker.set_state, nameservers)
        self._asked, self._coming = trio.open_memory_channel[HeldHello](math.inf)

    def take(self, connection: Connection) -> HeldHello:
        waiting = HeldHello(connection)
        self._asked.send_nowait(waiting)
        return waiting

    async def run(self) -> None:
        """Runs until cancelled. What is connected by then stays so: the old master sends its clients away itself."""
        async with trio.open_nursery() as nursery:
            async for waiting in self._coming:
                nursery.start_soon(self._open, waiting)

    async def _open(self, waiting: HeldHello) -> None:
        client = waiting.connection
        found = await self._master.connect(self, line_of(client.address, client.local_addr))
        if found is None:
            client.close("there is no master to pass it on to")
        elif waiting.is_over:
            found[1].close("its client is gone")
        else:
            _, upstream = found
            upstream.go_through(_Through(client), b"")
            client.go_through(_Through(upstream), waiting.data)
            self._loop.wake()


class _Through:
    """Bytes of one connection go to another, and both end together."""

    is_stopped = False
    held_bytes = 0

    def __init__(self, to: Connection):
        self._to = to

    def feed_untrusted(self, data: bytes) -> None:
        if data:
            self._to.put_out(bytes(data))

    def hand_to(self, on_frame: OnFrame, takers: list[Any]) -> None:
        """The broker has another role now. The connection leads where it did until that end closes it."""

    def close(self) -> None:
        self._to.flush()
        self._to.close("its other end is gone")
