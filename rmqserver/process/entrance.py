"""How clients come in: listeners, TLS, authentication, and the address under which peers know us."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rmqproto.errors import UsageError
from rmqproto.hosts import join
from rmqserver.advertise import Advertise, local_host
from rmqserver.command_line import ServerPlan
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.pump import Pump, plain_pump
from rmqserver.tls.late_door import LateDoor

if TYPE_CHECKING:
    from rmqserver.auth.auth_table import AuthTable
    from rmqserver.remoting.notices import Notices
    from rmqserver.remoting.service import Service
    from rmqserver.tls.door import TlsDoor, TlsLink

log = logging.getLogger(__name__)

FAST_PORT_DISTANCE = 2
"""How far below the broker's port the second listener is (Apache's "fast" or "VIP" port). Apache's dashboard, and
clients with ``vipChannelEnabled``, send most of their requests there."""

PAIR_TRIES_MAX = 50
"""How many free ports are tried until one has a free neighbour."""


class Entrance:
    """Call ``open_tls``, ``listen`` for each service, and ``start`` for its tasks."""

    def __init__(self, plan: ServerPlan, loop: Loop):
        self._plan = plan
        self._loop = loop
        self._door: TlsDoor | LateDoor | None = None
        """None: incoming connections are plain."""
        self._link: TlsLink | None = None
        self._advertised: Advertise | None = None

    def open_tls(self) -> None:
        """Sets TLS up as the settings ask for it. UsageError for a file that cannot be used."""
        settings = self._plan.tls
        is_asked = settings.door is not None and settings.door.is_asked
        if settings.door is not None and not is_asked:
            self._door = LateDoor(settings.door)
        if not is_asked and settings.link is None:
            return
        from rmqserver.tls.door import TlsDoor, TlsLink  # 10 ms, most of it OpenSSL

        if settings.door is not None and is_asked:
            self._door = TlsDoor(settings.door)
            certificate = settings.door.key_pair.cert_path if settings.door.key_pair else "self-signed"
            log.info(
                "event=tls-opened mode=%s certificate=%s client_auth=%s",
                settings.door.mode.value, certificate, settings.door.client_auth.value,
            )  # fmt: skip
        if settings.link is not None:
            self._link = TlsLink(settings.link)

    def start(self, nursery: trio.Nursery) -> None:
        for each in (self._door, self._link):
            if each is not None:
                nursery.start_soon(each.watch)

    # --- in and out --------------------------------------------------------------------------------------------------

    def listen(self, port: int, service: Service, *, main_port: int | None = None) -> int:
        """Returns the port; 0 takes any free one. ``main_port`` is our port in stored hosts, if it is another.
        UsageError if the port is not available."""
        listener = self._loop.open(self._plan.listen, port)
        return self._loop.accept_at(listener, service, main_port=main_port, make_pump=self._make_pump)

    def listen_twice(self, port: int, service: Service) -> int:
        """Listens on a broker's port, which is returned, and on the one below it; port 0 takes any free pair.
        UsageError if the port is not available. A taken neighbour is only a warning."""
        if 0 < port <= FAST_PORT_DISTANCE:
            log.warning("event=no-fast-port port=%d reason='no port is %d below it'", port, FAST_PORT_DISTANCE)
            return self.listen(port, service)
        for tries_left in range(PAIR_TRIES_MAX if port == 0 else 1, 0, -1):
            listener = self._loop.open(self._plan.listen, port)
            bound = int(listener.getsockname()[1])
            try:
                fast = self._loop.open(self._plan.listen, bound - FAST_PORT_DISTANCE)
            except UsageError as error:
                if tries_left > 1:
                    listener.close()
                    continue
                log.warning("event=no-fast-port port=%d reason=%r", bound - FAST_PORT_DISTANCE, str(error))
            else:
                self._loop.accept_at(fast, service, main_port=bound, make_pump=self._make_pump)
            break
        return self._loop.accept_at(listener, service, make_pump=self._make_pump)

    def _make_pump(self) -> Pump:
        return self._door.pump() if self._door is not None else plain_pump()

    @property
    def make_link_pump(self) -> Callable[[], Pump]:
        """Pumps for our own connections to other servers."""
        return self._link.pump if self._link is not None else plain_pump

    def make_notices(self) -> Notices:
        from rmqserver.remoting.notices import Notices

        return Notices(self._loop, self.make_link_pump, self._plan.auth.inner_client)

    # --- who may -----------------------------------------------------------------------------------------------------

    @property
    def is_guarded(self) -> bool:
        door = self._plan.tls.door
        return self._plan.auth.asks or (door is not None and door.is_asked)

    def guard(self, service: Service, table: AuthTable, cluster: str) -> None:
        """Requires that peers of ``service`` are users of ``table``."""
        from rmqserver.auth.auth_gate import AuthGate
        from rmqserver.remoting.gate import GatePlace

        gate = AuthGate(self._plan.auth, table, cluster, service.handlers)
        service.use_gate(GatePlace.USERS, gate, gate.admits_at_sight)

    def guard_alone(self, service: Service) -> None:
        """For a nameserver or a controller without a broker: its users come from its settings."""
        from rmqserver.auth.auth_table import AuthTable

        table = AuthTable(None)
        table.init_super_user(self._plan.auth.init_user)
        table.init_super_user(self._plan.auth.inner_client)
        self.guard(service, table, "")

    # --- our addresses -----------------------------------------------------------------------------------------------

    def local_addr(self, port: int) -> str:
        """The address at which a process on this machine reaches the port."""
        return join(local_host(self._plan.listen), port)

    def advertise(self, bound_port: int) -> Advertise:
        """The address that peers get for the service on this port, from now on."""
        host, port = self._plan.advertise or (None, None)
        self._advertised = Advertise(self._plan.listen, port or bound_port, host)
        return self._advertised

    def registered_addr(self, local: str) -> str:
        """The address of ours that a peer gets, if the connection to it has our address ``local``."""
        assert self._advertised is not None, "nobody is told before we listen"
        return self._advertised.addr(local)

    def advertised_addr(self) -> str:
        return self.registered_addr(local_host(self._plan.listen))
