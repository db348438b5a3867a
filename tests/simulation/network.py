"""The network between the machines. Connections are like TCP's: in order, each byte once, until they end. Every piece
takes its own time, and comes after a cut is over. Requests and answers may be lost or late, and so come twice if the
sender asks again. Notices may be lost, doubled and overtaken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rmqproto.wire.command import Command
from tests.rmqserver.controller.seats import Seat
from tests.simulation import tasks
from tests.simulation.world import Machine, World

CONNECT_TIMEOUT_S = 3.0
NORMAL_S = 0.001
HA_PORT = 1


class Network:
    """``machines`` has the machines by name. ``slowness_s`` is the mean time that a piece takes."""

    def __init__(self, world: World):
        self.world = world
        self.machines: dict[str, Any] = {}
        self.slowness_s = NORMAL_S
        self.loss = 0.0
        """Probability that a notice is lost. A ``Connection`` loses a request or an answer half as often, and ends."""
        self._cuts: set[tuple[str, str]] = set()
        self._held: list[tuple[Machine, Machine, Callable[[], None]]] = []
        self._streams = 0

    def next_stream_number(self) -> int:
        self._streams += 1
        return self._streams

    # --- faults ------------------------------------------------------------------------------------------------------

    def cut(self, one: Machine, other: Machine) -> None:
        self._cuts |= {(one.name, other.name), (other.name, one.name)}

    def mend(self, one: Machine, other: Machine) -> None:
        self._cuts -= {(one.name, other.name), (other.name, one.name)}
        held, self._held = self._held, []
        for sender, receiver, arrive in held:
            self._arrive_or_hold(sender, receiver, arrive)

    def mend_all(self) -> None:
        self._cuts.clear()
        held, self._held = self._held, []
        for sender, receiver, arrive in held:
            self._arrive_or_hold(sender, receiver, arrive)

    def speed_up(self) -> None:
        self.slowness_s = NORMAL_S

    def stop_losing(self) -> None:
        self.loss = 0.0

    def is_cut(self, one: Machine, other: Machine) -> bool:
        return (one.name, other.name) in self._cuts

    # --- pieces ------------------------------------------------------------------------------------------------------

    def delay_s(self) -> float:
        random = self.world.random
        delay = random.random() * 2 * self.slowness_s
        return delay * 50 if random.random() < 0.02 else delay

    def send(self, sender: Machine, receiver: Machine, arrive: Callable[[], None], not_before_s: float = 0) -> float:
        """Returns the time when the piece arrives, unless the connection is cut then."""
        when_s = max(self.world.now_s + self.delay_s(), not_before_s)
        self.world.at(when_s, lambda: self._arrive_or_hold(sender, receiver, arrive))
        return when_s

    def _arrive_or_hold(self, sender: Machine, receiver: Machine, arrive: Callable[[], None]) -> None:
        if self.is_cut(sender, receiver):
            self._held.append((sender, receiver, arrive))
        else:
            arrive()

    def post(self, sender: Machine, receiver: Machine, handle: Callable[[], None]) -> None:
        """Sends a notice."""
        for _ in range(1 + (self.world.random.random() < self.loss)):
            if self.world.random.random() >= self.loss:
                self.send(sender, receiver, lambda: receiver.soon(handle) if receiver.is_up else None)

    async def reach(self, sender: Machine, addr: str) -> Any:
        """Returns the machine at that address once a connection is open. Raises OSError."""
        receiver = self.machines[addr.partition(":")[0]]
        arrived = tasks.Event()
        self.send(sender, receiver, lambda: self.send(receiver, sender, lambda: sender.soon(arrived.set)))
        with tasks.move_on_after(CONNECT_TIMEOUT_S) as scope:
            await arrived.wait()
        if scope.cancelled_caught:
            raise TimeoutError(f"no connection to {addr}")
        if not receiver.is_up:
            raise ConnectionRefusedError(f"nobody listens at {addr}")
        return receiver


class Stream:
    """One end of a connection, with the interface of trio's streams and their sockets."""

    def __init__(self, network: Network, machine: Machine, peer_name: str):
        self._network = network
        self.number = network.next_stream_number()
        self._machine = machine
        self._life = machine.life
        self._peer_name = peer_name
        self.peer: Stream
        self._received = bytearray()
        self._has_ended = False
        self._is_reset = False
        self._is_closed = False
        self._news = tasks.Event()
        self._last_arrival_s = 0.0
        self.socket = self

    def getpeername(self) -> tuple[str, int]:
        return f"10.0.0.{self._peer_name[1:]}", HA_PORT  # b1 is 10.0.0.1

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.end()

    def end(self) -> None:
        """Ends the connection; data sent before still arrives first."""
        if not self._is_closed and self._life == self._machine.life:
            self._is_closed = True
            self._news.set()
            self._send(None)

    async def send_all(self, data: bytes) -> None:
        if self._is_closed or self._is_reset:
            raise tasks.BrokenResourceError
        random = self._network.world.random
        if len(data) > 1 and random.random() < 0.1:
            at = random.randrange(1, len(data))
            self._send(data[:at])
            data = data[at:]
        self._send(data)
        await tasks.checkpoint()

    async def write_all(self, parts: Sequence[bytes | memoryview]) -> None:
        """Writes in pieces, like a socket."""
        data = b"".join(parts)
        while data:
            if self._is_closed or self._is_reset:
                raise BrokenPipeError
            data = data[self.write_now([data], at_least=1) :]
            await tasks.checkpoint()

    def write_now(self, parts: Sequence[bytes | memoryview], at_least: int = 0) -> int:
        """Like ``sendmsg``, but returns 0 if the socket is full or broken."""
        data = b"".join(parts)
        if self._is_closed or self._is_reset or not data:
            return 0
        random = self._network.world.random
        if len(data) > 1 and random.random() < 0.1:
            data = data[: random.randrange(at_least, len(data))]
        if data:
            self._send(data)
        return len(data)

    async def receive_some(self, size_bytes: int) -> bytes:
        while not self._received:
            if self._is_reset:
                raise tasks.BrokenResourceError
            if self._has_ended or self._is_closed:
                return b""
            self._news = tasks.Event()
            await self._news.wait()
        data = bytes(self._received[:size_bytes])
        del self._received[:size_bytes]
        return data

    def _send(self, data: bytes | None) -> None:
        peer = self.peer
        self._last_arrival_s = self._network.send(
            self._machine, peer._machine, lambda: self._arrive(data), self._last_arrival_s
        )

    def _arrive(self, data: bytes | None) -> None:
        peer = self.peer
        machine = peer._machine
        if peer._life == machine.life and machine.is_up:
            machine.soon(lambda: peer._take(data))
        elif machine.is_up:  # the restarted machine does not know the connection
            self._network.send(machine, self._machine, self.reset)

    def _take(self, data: bytes | None) -> None:
        if data is None:
            self._has_ended = True
        else:
            self._received += data
        self._news.set()

    def reset(self) -> None:
        if self._life == self._machine.life:
            self._is_reset = True
            self._machine.soon(self._news.set)


def connected(network: Network, caller: Machine, called: Machine) -> tuple[Stream, Stream]:
    near, far = Stream(network, caller, called.name), Stream(network, called, caller.name)
    near.peer, far.peer = far, near
    return near, far


class _Seat(Seat):
    """Passes answers that come later, once etcd has stored a decision, to ``on_late``."""

    def __init__(self, service: Any, on_late: Callable[[Command], None], on_close: Callable[[], None]):
        super().__init__(service)
        self._on_late = on_late
        self._on_close = on_close
        self._is_asking = False

    def exchange(self, request: Command) -> Command | None:
        self._is_asking = True
        try:
            return super().exchange(request)
        finally:
            self._is_asking = False

    def send(self, frame: bytes) -> None:
        super().send(frame)
        if not self._is_asking and (answer := self.take()) is not None:
            self._on_late(answer)

    def close(self, reason: str) -> None:
        self._on_close()


class Served(Machine):
    """A machine that answers requests: a controller, a nameserver, or a broker. ``service`` is the product's service in
    the present life."""

    service: Any

    def __init__(self, world: World, network: Network, name: str):
        super().__init__(world, name)
        network.machines[name] = self
        self.network = network
        self.connections: dict[Connection, None] = {}

    def connected(self, caller: Machine, service: Any) -> Connection:
        return Connection(self.network, service, caller, self)

    def end_connections(self, *, is_silent: bool) -> None:
        """Ends all connections of a machine that dies. If its power was cut (``is_silent``), its peers hear nothing."""
        if not is_silent:
            for connection in self.connections:
                connection.called_died()
        self.connections.clear()

    def caller_died(self, caller: Machine, *, is_silent: bool) -> None:
        for connection in list(self.connections):
            if connection.caller is caller:
                if is_silent:
                    del self.connections[connection]
                else:
                    self.network.send(caller, self, connection.hang_up_there)


class Connection:
    """The caller's end of a connection for requests."""

    def __init__(self, network: Network, service: Any, caller: Machine, called: Served):
        self.closed = False
        self.local_addr = f"{caller.name}:0"
        self.address = called.name
        self._network = network
        self._service = service
        self._caller = caller
        self._called = called
        self._life, self._called_life = caller.life, called.life
        self._seat = _Seat(called.service, self._answer, self._closed_there)
        self._seat_is_taken = True
        self._waiting: dict[int, Callable[[Command | None], None]] = {}
        self._asked = 0
        called.connections[self] = None

    def ask(
        self, code: Any, ext: dict[str, str], body: bytes, on_answer: Callable[[Command | None], None], timeout_s: float
    ) -> None:
        self._asked += 1
        number = self._asked
        self._waiting[number] = on_answer
        self._caller.after(timeout_s, lambda: self._answered(number, None))
        command = Command(code=code, opaque=number, ext=ext, body=body)
        if self._network.world.random.random() < self._network.loss / 2:
            self._network.send(self._caller, self._called, self.hang_up_there)
            self._network.send(self._called, self._caller, lambda: self._caller.soon(self._ended))
            return
        self._network.send(self._caller, self._called, lambda: self._arrive(command))

    def _arrive(self, command: Command) -> None:
        called = self._called
        if called.is_up and called.life == self._called_life:
            called.soon(lambda: self._serve(command))
        elif called.is_up:
            self._network.send(called, self._caller, lambda: self._caller.soon(self._ended))

    def _serve(self, command: Command) -> None:
        answer = self._seat.exchange(command)
        if answer is not None:
            self._answer(answer)

    def _answer(self, answer: Command) -> None:
        if self._called.life != self._called_life:
            return
        if self._network.world.random.random() < self._network.loss / 2:  # it has acted, but its answer is lost
            self.hang_up_there()
            self._network.send(self._called, self._caller, lambda: self._caller.soon(self._ended))
            return
        self._network.send(
            self._called, self._caller, lambda: self._caller.soon(lambda: self._answered(answer.opaque, answer))
        )

    def _answered(self, number: int, answer: Command | None) -> None:
        on_answer = self._waiting.pop(number, None)
        if on_answer is not None and self._life == self._caller.life:
            on_answer(answer)

    def close(self, reason: str) -> None:
        if not self.closed:
            self._network.send(self._caller, self._called, self.hang_up_there)
            self._ended()

    def _ended(self) -> None:
        """The connection has ended at the caller."""
        if self.closed or self._life != self._caller.life:
            return
        self.closed = True
        self._service.connection_closed(self)
        for number in list(self._waiting):
            self._answered(number, None)

    def _closed_there(self) -> None:
        self.hang_up_there()
        self.called_died()

    def hang_up_there(self) -> None:
        """Lets the called machine notice that the connection has ended."""
        called = self._called
        if self._seat_is_taken and called.life == self._called_life:
            self._seat_is_taken = False
            called.connections.pop(self, None)
            called.soon(self._seat.hang_up)

    def called_died(self) -> None:
        self._network.send(self._called, self._caller, lambda: self._caller.soon(self._ended))

    @property
    def caller(self) -> Machine:
        return self._caller
