"""How a slave reaches its master for the clients that go on asking it: both doors pass them on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rmqserver.remoting.outward import Outward, connect
from rmqserver.remoting.pump import PLAIN

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.controlled.set_state import SetState
    from rmqserver.broker.replicas.slave import Slave
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.loop import Loop
    from rmqserver.remoting.service import Service

HOLD_S = 2.0
"""How long clients wait for a master that is still opening: less than the three seconds that they do."""
CONNECT_AGAIN_AFTER_S = 0.05


def may_pass_connections(broker: Broker) -> bool:
    """Whether a slave may pass whole connections on. A PROXY header tells the master whose connection it is, and
    another slave that it must go no further. Policies judge the address that reaches the broker. So a broker that asks
    for rights passes nothing on: whoever reaches a slave would be let in as the slave is."""
    settings = broker.auth_settings
    return broker.config.forward_to_master_enable and not settings.is_authorizing and not settings.enforces_plain


class WayToMaster:
    def __init__(self, loop: Loop, slave: Slave, state: SetState | None, nameservers: Outward | None):
        """Connections use TLS if those to the nameservers do."""
        self._loop = loop
        self._slave = slave
        self._state = state
        self._make_pump = nameservers.make_pump if nameservers is not None else lambda: PLAIN

    async def connect(self, service: Service, before: bytes = b"") -> tuple[str, Connection] | None:
        """The master's address and a connection to it, on which ``before`` was said, whose answers come through
        ``service``; None if no master can be reached in time."""
        with trio.move_on_after(HOLD_S):
            while True:
                addr = self._slave.master_addr
                if addr is None or (self._state is not None and self._state.master_addr != addr):
                    await self._slave.other_master()
                    continue
                try:
                    return addr, await connect(self._loop, service, addr, self._make_pump(), before)
                except OSError:
                    await trio.sleep(CONNECT_AGAIN_AFTER_S)
        return None
