"""A controller knows that a broker is dead when its machine says that nobody listens on its port."""

import socket
from collections.abc import Callable

import pytest
import trio
import trio.testing

from rmqserver.controller import live_brokers
from rmqserver.controller.live_brokers import LostConnections, is_refused
from tests.support.processes import free_ports


def listening(backlog: int = 5) -> tuple[socket.socket, str]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.trio
async def test_a_closed_port_is_refused_and_an_open_one_is_not() -> None:
    listener, address = listening()
    with listener:
        assert not await is_refused(address), "nobody accepts there, as where a broker is frozen"
    assert await is_refused(address)
    for no_address in ("", "nowhere", "127.0.0.1:x"):
        assert not await is_refused(no_address)


@pytest.mark.trio
async def test_silence_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is off or cut off answers nothing."""

    async def nothing(address: str) -> trio.SocketStream:
        raise TimeoutError("no connection in 3 s")

    monkeypatch.setattr(live_brokers, "open_stream", nothing)
    assert not await is_refused("127.0.0.1:1")


@pytest.mark.trio
@pytest.mark.parametrize(("others", "is_dead"), [(ConnectionRefusedError, True), (TimeoutError, False)])
async def test_of_a_name_all_addresses_must_refuse(
    others: type[OSError], is_dead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def some(address: str) -> trio.SocketStream:
        raise OSError("all attempts failed") from ExceptionGroup("", [ConnectionRefusedError(), others()])

    monkeypatch.setattr(live_brokers, "open_stream", some)
    assert await is_refused("name:1") is is_dead


async def looked_after(where: Callable[[], str | None], has_begun: Callable[[], None] = lambda: None) -> list[str]:
    """Returns ["dead"] if it was found dead, or nothing."""
    became: list[str] = []
    connections = LostConnections()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections.run)
        await trio.testing.wait_all_tasks_blocked()
        looked = 0

        def count() -> str | None:
            nonlocal looked
            looked += 1
            if looked == 3:
                has_begun()
            if looked == 20 or (address := where()) is None:
                nursery.cancel_scope.cancel()
                return None
            return address

        def dead() -> None:
            became.append("dead")
            nursery.cancel_scope.cancel()

        connections.look_after(count, dead)
    connections.look_after(where, dead)  # the controller has ended: nothing is looked after
    return became


@pytest.mark.trio
async def test_who_is_being_killed_is_looked_for_until_its_port_is_closed(autojump_clock: object) -> None:
    listener, address = listening()
    assert await looked_after(lambda: address, has_begun=listener.close) == ["dead"]


@pytest.mark.trio
async def test_who_takes_connections_is_not_dead(autojump_clock: object) -> None:
    listener, address = listening(backlog=100)
    with listener:
        assert await looked_after(lambda: address) == []


@pytest.mark.trio
async def test_who_was_heard_of_while_it_was_looked_for_is_not_dead() -> None:
    (port,) = free_ports()[:1]
    answers = [f"127.0.0.1:{port}"]
    assert await looked_after(lambda: answers.pop() if answers else None) == []
