"""Producers and consumers for plain threads: ``Producer.blocking(...)`` and the like. The client runs on an event loop
in a thread of its own, and any number of threads call it."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import anyio
import anyio.from_thread
from anyio.from_thread import BlockingPortal

from rmqclient.consuming.group_member import GroupMember
from rmqclient.lifetime import Lifetime
from rmqclient.lite_pull_consumer import LitePullConsumer
from rmqclient.producer import Producer
from rmqclient.pull_consumer import PullConsumer
from rmqclient.simple_consumer import SimpleConsumer
from rmqclient.transaction_producer import TransactionProducer
from rmqproto.errors import UsageError

C = TypeVar("C", bound=Lifetime)
P = ParamSpec("P")
R = TypeVar("R")


class Blocking(Generic[C]):
    """Use it in ``with``, or call ``open`` once, as a web application does, and ``close`` at its end. A program that
    ends without ``close`` is as one that closed: messages under way are sent first. Methods take what those of the
    client take, return and raise the same, and may be called by several threads at once. KeyboardInterrupt ends the
    call that waits; the message may have been stored then.

    A process that was forked needs a client of its own: UsageError there.
    """

    def __init__(self, client: C):
        self._client = client
        self._portal: BlockingPortal | None = None
        self._pid = os.getpid()

    def open(self) -> Self:
        """Connects. Errors as of the client's ``async with``. UsageError if it is open already."""
        if self._portal is not None:
            raise UsageError("this client is open already, or was closed: make another one")
        portal: Future[BlockingPortal] = Future()
        self._thread = threading.Thread(target=anyio.run, args=(_serve, portal), name="rmqclient")
        self._thread.start()
        self._portal = portal.result()
        threading.Thread(target=self._close_at_the_end, name="rmqclient-end", daemon=True).start()
        self._opened = self._portal.wrap_async_context_manager(self._client)
        try:
            self._opened.__enter__()
        except BaseException:
            self._stop()
            raise
        return self

    def close(self) -> None:
        """Finishes what is under way, as the end of the client's ``async with`` does. Closing again does nothing."""
        self._close(None, None, None)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(kind, error, trace)

    def _close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid or not self._thread.is_alive():
            return
        with _closing:
            if self._thread.is_alive():
                try:
                    self._opened.__exit__(kind, error, trace)
                finally:
                    self._stop()

    def _stop(self) -> None:
        assert self._portal is not None
        self._portal.call(self._portal.stop)
        self._thread.join()

    def _close_at_the_end(self) -> None:
        """The loop's thread keeps the process alive until this closed it, because the main thread ended without."""
        threading.main_thread().join()
        self.close()

    def _run(self, call: Callable[[], Awaitable[R]]) -> R:
        if self._portal is None:
            raise UsageError("this client is not open", hint="Use it in `with`, or call open().")
        if os.getpid() != self._pid:
            raise UsageError("this client was opened before the process was forked", hint="Open one in each process.")
        if not self._thread.is_alive():
            raise UsageError("this client was closed")
        answer = self._portal.start_task_soon(call)
        try:
            return answer.result()
        except BaseException:
            answer.cancel()  # ours was interrupted; it does nothing to a call that has failed
            raise


_closing = threading.RLock()
"""A program's end and a ``with`` block may close a client at the same time."""


async def _serve(opened: Future[BlockingPortal]) -> None:
    async with BlockingPortal() as portal:
        opened.set_result(portal)
        await portal.sleep_until_stopped()


def _called(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate[Blocking[Any], P], R]:
    """The client's method, for threads."""

    @functools.wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(lambda: method(self._client, *args, **kwargs))

    return call


def _plain(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Blocking[Any], P], R]:
    """The same for a method that does not wait. It runs in the loop, so that nothing changes meanwhile."""

    @functools.wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        async def in_loop() -> R:
            return method(self._client, *args, **kwargs)

        return self._run(in_loop)

    return call


class BlockingProducer(Blocking[Producer]):
    send = _called(Producer.send)
    send_batch = _called(Producer.send_batch)
    send_oneway = _called(Producer.send_oneway)
    request = _called(Producer.request)
    reply = _called(Producer.reply)
    recall = _called(Producer.recall)
    queues = _called(Producer.queues)


class BlockingTransactionProducer(BlockingProducer):
    send_in_transaction = _called(TransactionProducer.send_in_transaction)


class BlockingMember(Blocking[GroupMember]):
    """A consumer that calls its listener: a plain function, in ``concurrency`` threads, or an async one."""

    wait_assigned = _called(GroupMember.wait_assigned)


class BlockingSimpleConsumer(Blocking[SimpleConsumer]):
    queues = _called(SimpleConsumer.queues)
    pop = _called(SimpleConsumer.pop)
    ack = _called(SimpleConsumer.ack)
    change_invisible_time = _called(SimpleConsumer.change_invisible_time)


class BlockingPullConsumer(Blocking[PullConsumer]):
    queues = _called(PullConsumer.queues)
    pull = _called(PullConsumer.pull)
    committed_offset = _called(PullConsumer.committed_offset)
    commit = _called(PullConsumer.commit)
    min_offset = _called(PullConsumer.min_offset)
    max_offset = _called(PullConsumer.max_offset)
    search_offset = _called(PullConsumer.search_offset)


class BlockingLitePullConsumer(Blocking[LitePullConsumer]):
    subscribe = _called(LitePullConsumer.subscribe)
    unsubscribe = _called(LitePullConsumer.unsubscribe)
    assign = _called(LitePullConsumer.assign)
    queues = _called(LitePullConsumer.queues)
    poll = _called(LitePullConsumer.poll)
    seek = _plain(LitePullConsumer.seek)
    seek_to_begin = _called(LitePullConsumer.seek_to_begin)
    seek_to_end = _called(LitePullConsumer.seek_to_end)
    offset_for_timestamp = _called(LitePullConsumer.offset_for_timestamp)
    pause = _plain(LitePullConsumer.pause)
    resume = _plain(LitePullConsumer.resume)
    position = _plain(LitePullConsumer.position)
    commit = _called(LitePullConsumer.commit)
    committed = _called(LitePullConsumer.committed)
