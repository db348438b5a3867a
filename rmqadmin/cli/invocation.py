"""What is known about one run of a command line, before and while its command runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from rmqadmin.cli.options.common_options import SERVER_OPTIONS, CommonOptions
from rmqadmin.cli.output.output_format import JSON_FORMATS, Color
from rmqadmin.core.admin_client import AdminClient

if TYPE_CHECKING:
    from rmqadmin.core.contexts.settings import EffectiveSettings
    from rmqclient.blocking import BlockingClient


_FILES = ("tls_ca", "tls_cert", "tls_key")
_REACH = ("access_key", "secret_key", "tls", "tls_insecure", *_FILES, "address_map")
"""The settings that a connection depends on."""


class Session:
    """One shell. ``close`` closes its connections, including lent ones, and restores the environment."""

    def __init__(self, options: CommonOptions):
        """``options``: options about servers that apply to every command line that does not set them itself."""
        self.options = options
        self._idle: dict[object, list[BlockingClient]] = {}
        self._lent: dict[BlockingClient, object] = {}
        self._lending = Lock()
        self._answering: dict[tuple[str, ...], str] = {}
        self._app: Any = None
        self._context_before = os.environ.get(_context_variable())

    def close(self) -> None:
        lent = list(self._lent)
        self._drop_connections()
        for client in lent:
            client.close()
        if self._context_before is None:
            os.environ.pop(_context_variable(), None)
        else:
            os.environ[_context_variable()] = self._context_before

    def app(self, build: Callable[[], Any]) -> Any:
        """The command tree, built once: a shell runs many commands."""
        if self._app is None:
            self._app = build()
        return self._app

    # --- which servers -----------------------------------------------------------------------------------------------

    def filled(self, options: CommonOptions) -> CommonOptions:
        """The options of one command line, filled in with those of the shell. A line that names another context gets
        only the time-out and the limit of questions, because the other options are about the shell's own servers."""
        taken = ("timeout_s", "parallel") if options.context else SERVER_OPTIONS
        said = {name: getattr(self.options, name) for name in taken if getattr(options, name) is None}
        unlock = options.unlock or (self.options.unlock and not options.context)
        return msgspec.structs.replace(options, **said, unlock=unlock)

    def pin_context(self, name: str) -> None:
        """Stays in the context now in use, whatever another terminal chooses. It keeps the rank of a context in use."""
        os.environ[_context_variable()] = name

    def use_context(self, name: str) -> None:
        """Uses this context from now on, as if the shell had been started with ``--context``."""
        self.options = CommonOptions(context=name, timeout_s=self.options.timeout_s, parallel=self.options.parallel)
        self.pin_context(name)
        self._drop_connections()

    # --- connections -------------------------------------------------------------------------------------------------

    def lend(self, settings: EffectiveSettings) -> BlockingClient:
        """Connections made with these keys and this TLS, kept or new, for one borrower. The borrower does not close
        them but calls ``take_back``. Keys are read for new connections; a changed TLS file causes new ones. May be
        called from any thread, like ``take_back``."""
        key = (*map(settings.setting, _REACH), *map(_stamp, (settings.setting(name).value for name in _FILES)))
        with self._lending:
            if idle := self._idle.get(key):
                client = idle.pop()
            else:
                from rmqclient.blocking import BlockingClient

                client = BlockingClient(settings.credentials(), tls=settings.tls(), address_map=settings.address_map())
            self._lent[client] = key
        return client

    def take_back(self, client: BlockingClient) -> None:
        """Takes lent connections back. Closes them if the shell has gone to another context meanwhile."""
        with self._lending:
            key = self._lent.pop(client, None)
            if key is not None:
                self._idle.setdefault(key, []).append(client)
        if key is None:
            client.close()

    def begin_where_answered(self, admin: AdminClient) -> None:
        """Sends the client's first question to the name server that answered the last line, so that one that hangs
        holds up one line, not all of them."""
        admin.current_namesrv = self._answering.get(tuple(admin.namesrv_addrs), admin.current_namesrv)

    def note_who_answered(self, admin: AdminClient) -> None:
        self._answering[tuple(admin.namesrv_addrs)] = admin.current_namesrv

    def _drop_connections(self) -> None:
        with self._lending:
            dropped = [client for clients in self._idle.values() for client in clients]
            self._idle.clear()
            self._lent.clear()
        for client in dropped:
            client.close()


def _context_variable() -> str:
    from rmqadmin.core.contexts.settings import CONTEXT_VARIABLE

    return CONTEXT_VARIABLE


def _stamp(path: str | None) -> tuple[int, int] | None:
    with suppress(OSError):
        if path is not None:
            found = os.stat(path)
            return found.st_mtime_ns, found.st_size
    return None


class Invocation(msgspec.Struct):
    """What is known about this run of the program, for the error that may end it and for command lines that it runs."""

    command: str | None = None
    format_option: str | None = None
    context_option: str | None = None
    as_json: bool | None = None
    """Whether errors are shown as JSON; None: as the settings say."""
    color: Color = Color.AUTO
    with_pager: bool = True
    is_quiet: bool = False
    """Whether notices and progress are off."""
    debug: bool = False
    session: Session | None = None
    """The shell that runs this command line."""

    def choose(self, format: str | None) -> None:
        """Takes ``-o`` from before the command; None if it is not given."""
        if format is not None:
            self.format_option = format
            self.as_json = format.lower() in JSON_FORMATS

    def filled(self, options: CommonOptions) -> CommonOptions:
        """The options of the command, filled in with those given before it."""
        if options.context is None:
            options = msgspec.structs.replace(options, context=self.context_option)
        return options if self.session is None else self.session.filled(options)


def invocation_of(ctx: Any) -> Invocation:
    """The invocation that a Typer context belongs to."""
    found = ctx.find_object(Invocation)
    assert isinstance(found, Invocation)
    return found
