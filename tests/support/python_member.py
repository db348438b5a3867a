"""Our own push consumer as a member of a group beside Java's. It runs Trio in a thread of its own."""

import threading
from typing import Self

import trio

from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import ReceivedMessage

LEAVE_TIMEOUT_S = 60


class PythonMember:
    """Within the ``with`` block our client is a member of ``group`` and subscribes to the topic by ``expression``.
    ``bodies`` holds what it has consumed so far."""

    def __init__(self, namesrv_addr: str, group: str, topic: str, expression: str = "*"):
        self.bodies: list[bytes] = []
        self._args = namesrv_addr, group, {topic: expression}
        self._thread = threading.Thread(target=lambda: trio.run(self._consume), name=f"member of {group}")
        self._joined = threading.Event()
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._joined.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self._token.run_sync_soon(self._wants_to_leave.set)
        self._thread.join(LEAVE_TIMEOUT_S)
        assert not self._thread.is_alive(), f"our consumer has not left after {LEAVE_TIMEOUT_S} s"
        if self._failure is not None:
            raise self._failure

    @property
    def client_id(self) -> str:
        return self._consumer.client_id

    async def _consume(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._wants_to_leave = trio.Event()
        try:
            self._consumer = PushConsumer(*self._args, self._listen, consume_from=ConsumeFrom.FIRST_OFFSET)
            async with self._consumer:
                self._joined.set()
                await self._wants_to_leave.wait()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._joined.set()

    async def _listen(self, message: ReceivedMessage) -> None:
        self.bodies.append(message.body)
