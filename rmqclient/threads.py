"""Producers and consumers for plain threads: ``Producer.blocking(...)`` and the like. The client runs on an event loop
in a thread of its own, and any number of threads call it."""

from __future__ import annotations

import contextlib
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
    """Use it in ``with``, or call ``open`` once, as a web application does, and ``close`` at its end. Without ``close``
    it closes when the main thread and the program's other threads have ended (not the daemons): what is under way is
    sent first. Methods take what those of the client take, return and raise the same, and may be called by several
    threads at once. KeyboardInterrupt ends the call that waits; the message may have been stored then.

    A process that was forked needs a client of its own: UsageError there.
    """

    def __init__(self, client: C):
        self._client = client
        self._pid = os.getpid()
        self._closing = threading.RLock()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._portal: BlockingPortal | None = None
        self._failure: BaseException | None = None
        """Why the loop ended by itself."""

    def open(self) -> Self:
        """Connects. Errors as of the client's ``async with``. UsageError if it was opened before."""
        if self._thread is not None:
            raise UsageError("this client was opened before: make another one")
        opened: Future[BlockingPortal] = Future()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._serve, args=(opened,), name=LOOP_THREAD_NAME)
        self._thread.start()
        self._portal = portal = opened.result()
        self._opened = portal.wrap_async_context_manager(self._client)
        try:
            self._opened.__enter__()
        except BaseException:
            self._is_closed = True
            self._stop(cancels=True)  # the client may still be connecting
            raise
        _close_at_the_end(self)
        return self

    def close(self) -> None:
        """Finishes what is under way, as the end of the client's ``async with`` does. Closing again does nothing.
        RuntimeError if the client had ended by itself."""
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
        if self._thread is None or os.getpid() != self._pid:
            return
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            _open_clients.discard(self)
            if self._failure is not None:
                raise RuntimeError("the client had ended by itself") from self._failure
            try:
                self._opened.__exit__(kind, error, trace)
            finally:
                self._stop()

    def _stop(self, *, cancels: bool = False) -> None:
        assert self._portal is not None
        assert self._thread is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self._portal.call(self._portal.stop, cancels)
        self._thread.join()

    def _serve(self, opened: Future[BlockingPortal]) -> None:
        async def serve() -> None:
            async with BlockingPortal() as portal:
                opened.set_result(portal)
                await portal.sleep_until_stopped()

        try:
            anyio.run(serve)
        except BaseException as error:
            self._failure = error

    def _run(self, call: Callable[[], Awaitable[R]]) -> R:
        if self._portal is None:
            raise UsageError("this client is not open", hint="Use it in `with`, or call open().")
        if os.getpid() != self._pid:
            raise UsageError("this client was opened before the process was forked", hint="Open one in each process.")
        if self._is_closed:
            raise UsageError("this client was closed")
        try:
            answer = self._portal.start_task_soon(call)
        except RuntimeError:
            raise UsageError(f"this client has ended: {self._failure!r}") from self._failure
        try:
            return answer.result()
        except BaseException:
            answer.cancel()  # ours was interrupted; it does nothing to a call that has failed
            raise


# --- the end of a program that closes nothing ------------------------------------------------------------------------

LOOP_THREAD_NAME = "rmqclient"
_WORKER_THREAD_NAME = "AnyIO worker thread"

_open_clients: set[Blocking[Any]] = set()
_end: threading.Thread | None = None


def _close_at_the_end(client: Blocking[Any]) -> None:
    """The loops' threads keep the process alive until one thread, which waits for all others, has closed them."""
    global _end
    _open_clients.add(client)
    if _end is None or not _end.is_alive():  # in a forked process it is not
        _end = threading.Thread(target=_close_all, name="rmqclient-end", daemon=True)
        _end.start()


def _close_all() -> None:
    threading.main_thread().join()
    while others := [each for each in threading.enumerate() if _is_the_programs(each)]:
        others[0].join()
    for client in list(_open_clients):
        try:
            threading.Thread(target=client.close, name=LOOP_THREAD_NAME).start()
        except RuntimeError:  # Python 3.12.0 and 3.12.1 start no thread any more
            client.close()


def _is_the_programs(thread: threading.Thread) -> bool:
    ours = thread.name in (LOOP_THREAD_NAME, _WORKER_THREAD_NAME) or thread is threading.main_thread()
    return not ours and not thread.daemon


# --- methods ---------------------------------------------------------------------------------------------------------


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
