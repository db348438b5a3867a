"""What a command gets besides its own options: the admin client, the clock, and a way to ask the user.

A command takes a ``Call`` first and returns a ``Result``; it prints nothing and never exits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.cli import registry
from rmqadmin.cli.call_context import CallContext
from rmqadmin.cli.invocation import Invocation, Session
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import Format, wants_color
from rmqadmin.cli.output.rendering import render, table_view
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.contexts.permission import ChangePermission
from rmqadmin.core.names import is_made_by_brokers, topics_of_servers
from rmqadmin.core.results import Result
from rmqproto.errors import RocketMQError, UsageError

if TYPE_CHECKING:
    from rmqadmin.core.audit_trail import Arguments, AuditTrail
    from rmqadmin.core.contexts.context import Context
    from rmqadmin.core.deadline_client import OnceClient
    from rmqadmin.core.servers.broker_answers import Answers
    from rmqclient.blocking import BlockingClient


C = TypeVar("C", bound="AdminClient")
R = TypeVar("R", bound=Result)


def no_check() -> None:
    """The check before each change, for a client that has its own rules."""


class NotConfirmedError(RocketMQError):
    """The user was asked and did not say yes. Ends with status 1, like every refusal."""


class Call(CallContext):
    """One run of one command. ``close`` closes the client's connections, or returns them to the shell if one runs
    it."""

    def __init__(
        self,
        command: str,
        options: CommonOptions,
        invocation: Invocation | None = None,
        arguments: Callable[[], Arguments] | None = None,
    ):
        """``invocation``: the options before the command, and the shell that runs it, if any. ``arguments``: the
        command's own options, for the log of changes."""
        super().__init__(command, options, invocation or Invocation())
        self._arguments = arguments
        self.asks_servers = False
        """Whether a client was made."""

    # --- whether it may change something ----------------------------------------------------------------------------

    @cached_property
    def permission(self) -> ChangePermission:
        """What the contexts of the servers permit. Code that changes something without ``admin`` must check it
        itself."""
        return ChangePermission(
            self.guards,
            is_unlocked=self._options.unlock,
            confirmed=self._options.confirm,
            ask_name=self.ask_name,
            permitted=lambda: self.trail.begin(),
        )

    @cached_property
    def trail(self) -> AuditTrail:
        """The command's entry in the log of changes, if it changes something."""
        return self.new_trail(diagnostics.notice)

    def new_trail(self, tell: Callable[[str], None]) -> AuditTrail:
        """The trail of one separate change. ``tell`` takes the reason if nothing can be written."""
        from rmqadmin.core.audit_trail import Arguments, AuditTrail  # only for changes

        context = self.settings.counting_context()
        return AuditTrail(
            self.command,
            self._arguments() if self._arguments is not None else Arguments(),
            is_on=lambda: bool(self.settings.setting("audit").value),
            where=(None if context is None else context.name, self.settings.setting("namesrv_addr").value),
            tell=tell,
        )

    def end_trail(self, result: Result | None, error: BaseException | None = None) -> None:
        """Records how the command went, if it has an entry in the log of changes."""
        if "trail" in self.__dict__:
            self.trail.end(result, error)

    def confirm(
        self,
        what: str,
        name: str,
        *,
        preview: Result | None = None,
        namesrv_addr: str | None = None,
        is_said: bool = False,
    ) -> None:
        """Asks a person at a terminal to type ``name`` before ``what`` is done, after showing them ``preview``;
        NotConfirmedError for any other answer. Then the context must permit it (ChangeRefusedError). ``namesrv_addr``:
        where the change is made, if not at the call's name servers. Does nothing under ``--dry-run``.

        Where nobody can be asked, a command of our noun groups needs ``--yes`` (UsageError); mqadmin's commands act, so
        that its scripts keep working. ``is_said``: another option of the command line has said yes there.
        """
        if self.dry_run:
            return
        self.permission.check_unlocked(namesrv_addr)
        self.confirm_local(what, name, preview=preview, is_said=is_said)
        self.permission.check(namesrv_addr)

    def confirm_local(self, what: str, name: str, *, preview: Result | None = None, is_said: bool = False) -> None:
        """``confirm`` for actions that change nothing on a server."""
        entry = registry.find(self.command)
        if not self.can_ask:
            if entry is not None and entry.needs_yes and not is_said:
                self._refuse_without_yes(what)
            return
        view = table_view(Format.TABLE, False, sys.stderr)
        table = "" if preview is None else render(preview, self.command, Format.TABLE, view=view)
        question = f"{table}{self._badge(self.settings.context)}{what}\nType {name} to go on: "
        if diagnostics.ask(question) != name:
            raise NotConfirmedError("nothing was changed", hint="Type the name, or pass --yes.")

    def confirm_bulk(
        self, what: str, name: str, *, preview: Result | None = None, namesrv_addr: str | None = None
    ) -> None:
        """``confirm`` for actions of a command without a noun that need ``--yes`` all the same where nobody can be
        asked."""
        if not self.can_ask:
            self._refuse_without_yes(what)
        self.confirm(what, name, preview=preview, namesrv_addr=namesrv_addr)

    def _refuse_without_yes(self, what: str) -> None:
        """UsageError without ``--yes``."""
        if self._options.yes:
            return
        entry = registry.find(self.command)
        shows = "; --dry-run shows it" if entry is not None and entry.has_dry_run else ""
        raise UsageError(f"{what} Nobody can be asked to confirm it.", hint=f"--yes does it{shows}.")

    def ask_and_act(self, preview: R, what: str, name: str, act: Callable[[], R]) -> R:
        """Returns the preview under ``--dry-run``; otherwise confirms and returns what ``act`` returns."""
        if self.dry_run:
            return preview
        self.confirm(what, name, preview=preview)
        return act()

    def ask_name(self, context: Context) -> str | None:
        """Shows a person the name of a protected context and returns the name they type. None if nobody can be
        asked."""
        if self.as_mqadmin or not sys.stdin.isatty():
            return None
        question = f"{self._badge(context)}{context.name} is protected.\nType {context.name} to go on: "
        return diagnostics.ask(question) or ""

    def _badge(self, context: Context | None) -> str:
        if context is None:
            return ""
        from rmqadmin.core.contexts.context import badge

        return f"{badge(context, has_color=wants_color(self.color, sys.stderr))} "

    # --- clients -----------------------------------------------------------------------------------------------------

    @cached_property
    def admin(self) -> OnceClient:
        """The client, not yet connected. Under ``--dry-run`` it refuses every request that could change something,
        whatever the command does; otherwise the context must permit the first such request."""
        from rmqadmin.core.deadline_client import OnceClient  # 50 ms, which `explain` and usage errors do not need

        admin = OnceClient(
            self.settings.setting("namesrv_addr").value,
            timeout_s=self.settings.setting("timeout_s").value,
            read_only=self.dry_run,
            before_change=lambda: self.permission.check(),
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
        same = self._options
        options = CommonOptions(context=name, timeout_s=same.timeout_s, parallel=same.parallel, output=self.format)
        return Call(self.command, options, self.invocation)

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
