"""A controller without sockets: requests in, answers out, on a log in memory and a clock that only the test moves."""

from collections.abc import Callable
from typing import Any

import trio

from rmqproto.codes import ONEWAY_FLAG, RequestCode
from rmqproto.headers.base import Header, to_ext
from rmqproto.headers.controller import RoleChangeHeader
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from rmqproto.wire.frames import FrameCutter
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.controller.controller import Controller
from rmqserver.controller.controller_state import BrokerSet
from rmqserver.controller.decision import set_body
from rmqserver.controller.event_log import EventLog
from rmqserver.store.disk.disk import Disk

HOST = "127.0.0.1"
SETTLED_S = 11.0


class Seat:
    """The connection of one broker or client to a controller."""

    def __init__(self, controller: Controller):
        self.local_addr = f"{HOST}:9878"
        self.address = f"{HOST}:1"
        self.is_stopped = False
        self._controller = controller
        self._sent: list[Command] = []

    def send(self, frame: bytes) -> None:
        self._sent.append(decode_frame_untrusted(frame))

    def exchange(self, request: Command) -> Command | None:
        """Returns the answer, or None for a oneway request."""
        cutter: Any = FrameCutter(self._controller.handle_untrusted, self)  # type: ignore[arg-type]
        cutter.feed_untrusted(encode_frame(request))
        return self.take()

    @staticmethod
    def request(code: RequestCode, header: Header | None = None, body: bytes = b"", *, oneway: bool = False) -> Command:
        flag = ONEWAY_FLAG if oneway else 0
        return Command(code=code, ext=to_ext(header) if header else {}, body=body, flag=flag)

    def ask(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        answer = self.exchange(self.request(code, header, body))
        assert answer is not None
        return answer

    def take(self) -> Command | None:
        """The latest answer, if it has not been taken."""
        return self._sent.pop() if self._sent else None

    def hang_up(self) -> None:
        self._controller.connection_closed(self)  # type: ignore[arg-type]


class HeardNotices:
    """Replaces the notices, and records which brokers were told what."""

    def __init__(self) -> None:
        self.told: list[tuple[RoleChangeHeader, bytes, list[str]]] = []
        """Header and body, and who got them."""

    def post(self, address: str, code: int, header: RoleChangeHeader, body: bytes) -> None:
        assert code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED
        if not self.told or self.told[-1][0] is not header:
            self.told.append((header, body, []))
        self.told[-1][2].append(address)

    def last_of(self, found: BrokerSet) -> list[str]:
        """Who got the last notice, which is about the master of that set."""
        header, body, addresses = self.told[-1]
        assert (header.master_broker_id, header.master_address) == (found.master_broker_id, found.master_address)
        assert (header.master_epoch, header.sync_state_set_epoch) == (found.master_epoch, found.sync_state_set_epoch)
        assert body == set_body(found)
        return addresses

    async def run(self) -> None:
        await trio.sleep_forever()


class SaidConnections:
    """Replaces the part that checks lost connections: the test says whether somebody listens. ``doubted``: the
    addresses of brokers that may be dead."""

    def __init__(self) -> None:
        self.somebody_listens = False
        self._doubts: list[tuple[Callable[[], str | None], Callable[[], None]]] = []

    def look_after(self, where: Callable[[], str | None], on_dead: Callable[[], None]) -> None:
        self._doubts.append((where, on_dead))
        self.look()

    def look(self) -> None:
        self._doubts = [doubt for doubt in self._doubts if doubt[0]() is not None]
        if not self.somebody_listens:
            doubts, self._doubts = self._doubts, []
            for _, on_dead in doubts:
                on_dead()

    @property
    def doubted(self) -> list[str | None]:
        return [address for where, _ in self._doubts if (address := where()) is not None]

    async def run(self) -> None:
        await trio.sleep_forever()


class SeatedController:
    """A controller with ``now_s`` as its clock. ``seat`` makes a connection."""

    def __init__(self, disk: Disk, directory: str = "/state", settings: str = ""):
        self.now_s = 0.0
        self.notices = HeardNotices()
        self.connections = SaidConnections()
        config = ControllerConfig.from_properties(settings)
        clock: Callable[[], float] = lambda: self.now_s  # noqa: E731
        log = EventLog(directory, disk)
        self.controller = Controller(
            config,
            log,
            self.notices,
            self.connections,
            lambda host: f"{host}:9878",
            clock,  # type: ignore[arg-type]
        )
        self.controller.open()

    def seat(self) -> Seat:
        return Seat(self.controller)

    def settle(self) -> None:
        """Waits until every broker that is not heard of counts as dead."""
        self.now_s += SETTLED_S
