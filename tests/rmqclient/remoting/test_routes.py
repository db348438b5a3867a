"""When the client asks for routes."""

import itertools
from typing import Any

import pytest
import trio

from rmqclient.remoting import routes
from rmqclient.remoting.routes import Routes
from rmqproto.bodies.routes import TopicRoute
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command


class Nameserver:
    """A client that knows no broker."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    async def request(self, *_: object) -> Command:
        self.asked_s.append(trio.current_time())
        return Command(code=0, body=fastjson.dumps(TopicRoute()))


@pytest.mark.trio
async def test_a_new_master_is_looked_for_often_at_first_and_never_without_a_rest(autojump_clock: Any) -> None:
    nameserver: Any = Nameserver()
    found = Routes(["127.0.0.1:1"], nameserver)
    await found.queues("T")
    nameserver.asked_s.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.refresh_forever)
        await trio.sleep(2 * routes.REFRESH_APART_MAX_S)
        began_s = trio.current_time()
        while trio.current_time() < began_s + 10:
            found.refresh_soon()
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    asked_s = [each - began_s for each in nameserver.asked_s]
    apart_s = [after - before for before, after in itertools.pairwise(asked_s)]
    assert sum(each < 1 for each in asked_s) >= 5
    assert apart_s == sorted(apart_s)
    assert apart_s[-1] == pytest.approx(routes.REFRESH_APART_MAX_S, abs=0.02)
