"""Whether a command may change something, by ``read_only`` and ``protected``. The dashboard asks in its own dialogs
(``tui/dialogs/change.py``).

The rules of a context apply to its servers, however they are reached: to a call in this context, and to a call in
another context, or in none, that names one of its name servers by a flag or the environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock, Thread
from typing import TYPE_CHECKING

from rmqadmin.core.contexts.context import addresses_of
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.hosts import split_address

if TYPE_CHECKING:
    from rmqadmin.core.contexts.context import Context
    from rmqadmin.core.contexts.settings import EffectiveSettings


FOUND_WITHIN_S = 1.0
"""How long a change waits for the numbers of the name servers of contexts that forbid changes."""


class ChangeRefusedError(Exception):
    """A context forbids the change, and nothing was changed. It is not a RocketMQError: after one of those, the other
    servers are still asked, but here none may be."""

    def __init__(self, message: str, *, hint: str):
        super().__init__(message)
        self.hint = hint


class StoppedAtQuestion(KeyboardInterrupt):
    """Ctrl-C came while the user was asked whether a context permits the change, so nothing was changed."""


class ReadOnlyContextError(ChangeRefusedError):
    """The context is read-only."""


class ProtectedContextError(ChangeRefusedError):
    """The context is protected, and its name was not given."""


def guards(
    settings: EffectiveSettings, namesrv_addr: str | None, tell: Callable[[RocketMQError], None]
) -> list[Context]:
    """The contexts whose rules apply to changes at these name servers; None means those of the call. ``tell`` takes the
    errors of invalid context files, which then guard nothing.

    The call's own context alone decides about its own servers, even if other contexts share them: a user may have one
    context for looking and one for changes. About other servers, every context that has one of them decides, whether
    the two write the same name for it or not.
    """
    called = set(addresses_of(settings.setting("namesrv_addr").value))
    meant = called if namesrv_addr is None else set(addresses_of(namesrv_addr))
    own = settings.context
    found = [own] if own is not None and called & meant else []
    foreign = meant - {addr for context in found for addr in _addresses(context)}
    if not foreign:
        return found
    others = settings.store.load_all(tell)
    unlike = [
        one for one in others if (one.settings.read_only or one.settings.protected) and not foreign & _addresses(one)
    ]
    same = _lead_there(unlike, foreign) if unlike else []
    return [*found, *(one for one in others if foreign & _addresses(one) or one in same)]


def _addresses(context: Context) -> set[str]:
    return set(addresses_of(context.settings.namesrv_addr or ""))


def _lead_there(contexts: Sequence[Context], addrs: set[str]) -> list[Context]:
    """The contexts with a name server of ``addrs`` under another name that is found within ``FOUND_WITHIN_S``."""
    import socket

    found: dict[str, set[tuple[str, int]]] = {}

    def look_up(addr: str) -> None:
        with suppress(OSError, UsageError):
            infos = socket.getaddrinfo(*split_address(addr), type=socket.SOCK_STREAM)
            found[addr] = {(str(info[4][0]), int(info[4][1])) for info in infos}

    asked = [*addrs, *(addr for one in contexts for addr in _addresses(one))]
    threads = [Thread(target=look_up, args=(addr,), daemon=True) for addr in dict.fromkeys(asked)]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + FOUND_WITHIN_S
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    places = _places(addrs, found)
    return [one for one in contexts if places & _places(_addresses(one), found)]


def _places(addrs: set[str], found: dict[str, set[tuple[str, int]]]) -> set[tuple[str, int]]:
    return {place for addr in addrs for place in found.get(addr, ())}


class ChangePermission:
    """The permission of one call, checked before every change, from any thread, and found out once."""

    def __init__(
        self,
        find_guards: Callable[[str | None], Sequence[Context]],
        *,
        is_unlocked: bool,
        confirmed: str | None,
        ask_name: Callable[[Context], str | None],
        permitted: Callable[[], None] = lambda: None,
    ):
        """``find_guards`` is like ``guards``. ``is_unlocked``: read-only contexts permit changes, too. ``confirmed``:
        the context name that the user gave. ``ask_name`` asks the user to type the name of a context; None if nobody
        can be asked. ``permitted`` is called each time a change has been permitted, before it is made."""
        self._find_guards = find_guards
        self._is_unlocked = is_unlocked
        self._confirmed = confirmed
        self._ask_name = ask_name
        self._permitted = permitted
        self._lock = RLock()
        self._guards: dict[str | None, Sequence[Context]] = {}
        self._refusal: ChangeRefusedError | None = None

    def check_unlocked(self, namesrv_addr: str | None = None) -> None:
        """ReadOnlyContextError if a read-only context guards these name servers. Never asks the user."""
        with self._lock:
            for context in self._guarding(namesrv_addr):
                if context.settings.read_only and not self._is_unlocked:
                    raise ReadOnlyContextError(
                        f"the context {context.name} is read-only: nothing was changed",
                        hint=f"--unlock permits this one command, `rmqadmin context edit {context.name}"
                        " --no-read-only` permits all.",
                    )

    def check(self, namesrv_addr: str | None = None) -> None:
        """Like ``check_unlocked``, and ProtectedContextError if the user does not give the name of a protected context.
        If several contexts have these servers, any of their names will do."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            self.check_unlocked(namesrv_addr)
            protected = [context for context in self._guarding(namesrv_addr) if context.settings.protected]
            if protected and self._confirmed not in {context.name for context in protected}:
                self._confirm(protected[0])
        self._permitted()

    def _confirm(self, context: Context) -> None:
        given = self._confirmed
        try:
            typed = self._ask_name(context) if given is None else None
        except KeyboardInterrupt:
            raise StoppedAtQuestion from None
        if typed != context.name:
            self._refusal = ProtectedContextError(
                f"the context {context.name} is protected{f', not {given}' if given else ''}: nothing was changed",
                hint=f"Type its name, or pass --confirm {context.name}.",
            )
            raise self._refusal
        self._confirmed = typed

    def _guarding(self, namesrv_addr: str | None) -> Sequence[Context]:
        if namesrv_addr not in self._guards:
            self._guards[namesrv_addr] = self._find_guards(namesrv_addr)
        return self._guards[namesrv_addr]
