"""What a command gets besides its own options: the admin client, the clock, and a way to ask the user.

A command takes a ``Call`` first and returns a ``Result``; it prints nothing and never exits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.cli.call_confirmation import CallConfirmation
from rmqadmin.cli.invocation import Invocation, Session
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import Color, Format
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.names import is_made_by_brokers, topics_of_servers
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqadmin.core.audit_trail import Arguments
    from rmqadmin.core.deadline_client import OnceClient
    from rmqadmin.core.servers.broker_answers import Answers
    from rmqclient.blocking import BlockingClient


C = TypeVar("C", bound="AdminClient")


def no_check() -> None:
    """The check before each change, for a client that has its own rules."""


class Call(CallConfirmation):
    """One run of one command. ``close`` closes the client's connections, or returns them to the shell if one runs
    it."""

    def __init__(
        self,
        command: str,
        options: CommonOptions,
        format: Format,
        color: Color = Color.AUTO,
        invocation: Invocation | None = None,
        arguments: Callable[[], Arguments] | None = None,
    ):
        """``invocation``: the options before the command, and the shell that runs it, if any. ``arguments``: the
        command's own options, for the log of changes."""
        super().__init__(command, options, format, color, invocation or Invocation(), arguments)
        self.asks_servers = False
        """Whether a client was made."""

    @cached_property
    def admin(self) -> OnceClient:
        """The client, not yet connected. Under ``--dry-run`` it refuses every request that could change something,
        whatever the command does; otherwise the context must permit the first such request."""
        from rmqadmin.core.deadline_client import OnceClient  # 50 ms, which `explain` and usage errors do not need

        admin = OnceClient(
            self._namesrv_text,
            timeout_s=self.settings.setting("timeout_s").value,
            read_only=self.dry_run,
            before_change=self.permission.check,
            before_namesrv=self._tell_default_namesrv,
            client=self.connections,
        )
        if self.invocation.session is not None:
            self.invocation.session.begin_where_answered(admin)
        return admin

    @cached_property
    def connections(self) -> BlockingClient:
        """The connections of ``admin``, for requests that are not admin requests. They lack its guards. In a shell they
        may already be open."""
        client = self._borrow()
        self.tell_silence(client)
        return client

    def tell_silence(self, client: BlockingClient) -> None:
        """Makes the status line name the server that the client waits for, if that server has sent nothing yet. Not
        over a table that is redrawn all the time. Lasts until the client is given back."""
        if diagnostics.shows_status() and not (self._options.watch_s or self._options.interval_s):
            client.on_silence = diagnostics.silence

    def new_client(self, kind: type[C], *, read_only: bool, before_change: Callable[[], None] = no_check) -> C:
        """A client of the caller's own, for a caller that must not wait for others' answers and that checks ``guards``
        itself. The caller closes it; in a shell, its connections are then kept for reuse."""
        client = self._borrow()
        try:
            made = kind(
                self.namesrv_addr,
                timeout_s=self.settings.setting("timeout_s").value,
                read_only=read_only,
                before_change=before_change,
                client=client,
                give_back=self._give_back,
            )
        except RocketMQError:
            self._give_back(client)
            raise
        if self.invocation.session is not None:
            self.invocation.session.begin_where_answered(made)
        return made

    def _borrow(self) -> BlockingClient:
        """Connections for one user, which must give them back."""
        self.asks_servers = True
        from rmqclient.blocking import BlockingClient

        settings, session = self.settings, self.invocation.session
        if session is not None:
            return session.lend(settings)
        return BlockingClient(
            settings.credentials(),
            settings.setting("timeout_s").value,
            tls=settings.tls(),
            address_map=settings.address_map(),
        )

    def _give_back(self, client: BlockingClient) -> None:
        client.on_silence = None
        if self.invocation.session is not None:
            self.invocation.session.take_back(client)
        else:
            client.close()

    @cached_property
    def answers(self) -> Answers:
        """Asks several brokers, some of which may not answer. The result is what the others say; the program then ends
        with the exit status for partial success."""
        from rmqadmin.core.servers.broker_answers import Answers  # only for commands that ask several

        return Answers()

    def forget_answers(self) -> None:
        """Makes the next question go to every broker again."""
        self.__dict__.pop("answers", None)
        if "admin" in self.__dict__:
            self.admin.begin_anew()

    def answers_problem(self) -> str | None:
        """Which brokers did not answer; None if all did."""
        return self.answers.problem() if "answers" in self.__dict__ else None

    def in_context(self, name: str) -> Call:
        """The same call in another context. Options about servers are left behind, because they are about this
        context's."""
        options = CommonOptions(context=name, timeout_s=self._options.timeout_s, parallel=self._options.parallel)
        return Call(self.command, options, self.format, self._color, self.invocation)

    @contextmanager
    def shell_session(self) -> Iterator[Session]:
        """A session for command lines that this call runs. The call's options apply to them, and they stay in its
        context. NotFoundError and UsageError for a context that cannot be used."""
        from rmqadmin.core.contexts.context import NO_CONTEXT

        context = self.settings.context
        session = Session(self._options)
        try:
            if not self._options.context:
                session.pin_context(NO_CONTEXT if context is None else context.name)
            yield session
        finally:
            session.close()

    def notice_if_no_broker(self) -> None:
        """For a list that is empty: gives a notice if it is because the name server knows no broker."""
        from rmqadmin.core.servers.meant_brokers import known_elsewhere
        from rmqadmin.core.targets import NO_BROKER

        if not self.admin.cluster_info().broker_addr_table:
            other = known_elsewhere(self.admin, ())
            self.notice(f"{NO_BROKER}; {other or 'start one, or name others with -n'}")

    def own_topics(self, topics: Sequence[str], *, show_all: bool) -> list[str]:
        """``without_systems_own`` for topics."""
        servers = cache(lambda: topics_of_servers(self.admin.cluster_info()))
        return self.without_systems_own(
            topics, lambda topic: is_made_by_brokers(topic, servers()), "topics", show_all=show_all
        )

    def remember(self, kind: str, names: Iterable[str]) -> None:
        """Saves names for completion: topic, group, cluster or broker."""
        from rmqadmin.cli.shells.names_cache import remember

        remember(self.admin.namesrv_addrs, kind, names)

    def close(self) -> None:
        session = self.invocation.session
        if session is not None and "admin" in self.__dict__:
            session.note_who_answered(self.admin)
        if "connections" in self.__dict__:
            self._give_back(self.connections)
