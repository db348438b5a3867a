"""What consumers that are no members of their group share: no broker knows them, and members do not see them."""

from __future__ import annotations

import ssl
from typing import TypeVar

from anyio.abc import TaskGroup

from rmqclient.lifetime import Lifetime
from rmqclient.remoting.client_instance import ClientInstance
from rmqclient.threads import Blocking, called
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.names import group_problem
from rmqproto.wire.credentials import Credentials


class NonMember(Lifetime):
    def __init__(self, namesrv_addrs: str, group: str, credentials: Credentials | None, tls: ssl.SSLContext | None):
        """UsageError for invalid addresses or an invalid group."""
        if problem := group_problem(group):
            raise UsageError(problem)
        self.group = group
        self._client = ClientInstance(namesrv_addrs, credentials, tls=tls)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues. RefusedError with code 17 for a topic that does not exist."""
        return list((await self._client.routes.queues(topic)).readable)

    async def light_queues(self, topic: str, name: str) -> list[MessageQueue]:
        """The light queue of that name (``%LMQ%...``) on each broker of the topic whose messages name it."""
        return await self._client.routes.light_queues(topic, name)

    async def _start(self, nursery: TaskGroup) -> None:
        await self._client.start(nursery)

    async def _leave(self) -> None:
        """Does nothing: no broker knows this client."""


N = TypeVar("N", bound=NonMember)


class BlockingNonMember(Blocking[N]):
    queues = called(NonMember.queues)
    light_queues = called(NonMember.light_queues)
