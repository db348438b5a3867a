"""Notices share one connection to a receiver, and only so many wait."""

import logging

import pytest
import trio
import trio.testing

from rmqproto.codes import RequestCode
from rmqproto.headers.consuming import ConsumerGroupHeader
from rmqproto.wire.command import Command, FrameReader
from rmqserver.remoting import notices as notices_module
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.notices import Notices
from rmqserver.remoting.outward import open_stream

LIMIT_S = 30
CODE = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def test_simultaneous_first_notices_take_one_connection_and_keep_their_order() -> None:
    """Each opened a connection of its own, of which all but the last were forgotten, open."""
    loop = Loop()
    notices = Notices(loop)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
    heard: list[Command] = []
    try:
        with trio.fail_after(LIMIT_S):
            async with listener, trio.open_nursery() as nursery:
                nursery.start_soon(loop.run)
                nursery.start_soon(notices.run)
                for number in range(5):
                    notices.post(address, CODE, ConsumerGroupHeader(consumer_group=str(number)))
                async with await listener.accept() as stream:
                    reader = FrameReader()
                    while len(heard) < 5:
                        heard += reader.feed(await stream.receive_some())
                    notices.post(address, CODE, ConsumerGroupHeader(consumer_group="5"))
                    while len(heard) < 6:
                        heard += reader.feed(await stream.receive_some())
                with trio.move_on_after(0.05) as nobody_else:
                    await listener.accept()
                nursery.cancel_scope.cancel()
    finally:
        loop.close()
    assert nobody_else.cancelled_caught
    assert [command.ext["consumerGroup"] for command in heard] == list("012345")


async def test_only_so_many_wait_for_receivers_that_do_not_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each was a task that waited for its own connection, and the bound was never reached."""
    monkeypatch.setattr(notices_module, "WAITING_MAX", 4)
    tried: list[str] = []

    async def connect(loop: Loop, service: Notices, address: str, pump: object) -> None:
        tried.append(address)
        if len(tried) == 3:
            raise OSError("gone")
        await trio.sleep_forever()

    monkeypatch.setattr(notices_module, "connect", connect)
    loop = Loop()
    notices = Notices(loop)
    try:
        with caplog.at_level(logging.WARNING):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(notices.run)
                for host in "abab":
                    notices.post(f"{host}:1", CODE, ConsumerGroupHeader(consumer_group="g"))
                    await trio.testing.wait_all_tasks_blocked()
                notices.post("c:1", CODE, ConsumerGroupHeader(consumer_group="g"))
                assert "event=notice-dropped" in caplog.text
                assert tried == ["a:1", "b:1"]
                monkeypatch.setattr(notices_module, "WAITING_MAX", 5)
                notices.post("c:1", CODE, ConsumerGroupHeader(consumer_group="g"))
                await trio.testing.wait_all_tasks_blocked()
                notices.post("d:1", CODE, ConsumerGroupHeader(consumer_group="g"))  # what was lost waits no more
                nursery.cancel_scope.cancel()
    finally:
        loop.close()
    assert "event=notice-not-sent code=40 count=1 addr=c:1" in caplog.text
    assert caplog.text.count("event=notice-dropped") == 1


@pytest.mark.parametrize("port", ["", "x", "0", "-1", "1_0", "\u0663", "65536", "7" * 20])
async def test_an_address_of_another_server_that_is_none_ends_nothing(port: str) -> None:
    """Anyone may register one with a nameserver, which notifies it: a port of 20 digits ended the nameserver."""
    with pytest.raises(OSError, match="is not a port"):
        await open_stream(f"127.0.0.1:{port}")
