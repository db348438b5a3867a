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

from rmqclient.lifetime import Lifetime
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


def called(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate[Blocking[Any], P], R]:
    """The client's method, for threads."""

    @functools.wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(lambda: method(self._client, *args, **kwargs))

    return call


def called_in_loop(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Blocking[Any], P], R]:
    """The same for a method that does not wait. It runs in the loop, so that nothing changes meanwhile."""

    @functools.wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        async def in_loop() -> R:
            return method(self._client, *args, **kwargs)

        return self._run(in_loop)

    return call
