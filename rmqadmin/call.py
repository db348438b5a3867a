"""What a command gets besides its own options: the admin client, the clock, and a way to ask the user.

Commands take a ``Call`` first and return a ``Result``; they print nothing and never exit.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqadmin import diagnostics
from rmqadmin.core.contexts.defaults import NAMESRV_DEFAULT
from rmqadmin.core.contexts.permission import ChangePermission, guards
from rmqadmin.core.results import Result
from rmqadmin.core.system_names import is_made_by_brokers, topics_of_servers
from rmqadmin.invocation import Invocation
from rmqadmin.options.common_options import CommonOptions
from rmqadmin.output import DOCUMENTS, Color, Format, render, table_view, wants_color
from rmqproto.errors import RocketMQError, UsageError

if TYPE_CHECKING:
    from rmqadmin.core.audit.trail import Arguments, AuditTrail
    from rmqadmin.core.contexts.context import Context
    from rmqadmin.core.contexts.settings import EffectiveSettings
    from rmqadmin.core.progress import CountDone
    from rmqadmin.core.servers.broker_answers import Answers
    from rmqadmin.session import Session
    from rmqclient.admin import AdminClient
    from rmqclient.blocking import BlockingClient

C = TypeVar("C", bound="AdminClient")
R = TypeVar("R", bound=Result)
N = TypeVar("N")


def no_check() -> None:
    """Before a change of a client that has its own rules."""


class NotConfirmedError(RocketMQError):
    """The user was asked and did not say yes. Ends with status 1, as every refusal does."""


class Call:
    """One run of one command. ``close`` closes the client's connections, unless a shell keeps them."""

    def __init__(
        self,
        command: str,
        options: CommonOptions,
        format: Format,
        color: Color = Color.AUTO,
        invocation: Invocation | None = None,
        arguments: Callable[[], Arguments] | None = None,
    ):
        """``invocation``: what was said before the command, and the shell that runs it, if one does. ``arguments``: the
        command's own options, for the log of changes."""
        self.command = command
        self.format = format
        self.dry_run = options.dry_run
        self._options = options
        self._color = color
        self.invocation = invocation or Invocation()
        self._arguments = arguments
        self._has_told_default = False

    @cached_property
    def admin(self) -> AdminClient:
        """The client, connected to nothing yet. Under ``--dry-run`` it refuses every request that could change
        something, whatever the command does; otherwise the context must permit the first one."""
        from rmqclient.admin import AdminClient  # 50 ms, which `explain` and usage errors do not need

        admin = AdminClient(
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
        """Those of ``admin``, for requests that are no admin's; without its guards. Open in a shell, perhaps."""
        client = self._borrow()
        self.tell_silence(client)
        return client

    def tell_silence(self, client: BlockingClient) -> None:
        """Has the status line say which server the client waits for, if it has not sent anything; not over a table that
        is drawn anew all the time. Until the client is given back."""
        if diagnostics.shows_status() and not (self._options.watch_s or self._options.interval_s):
            client.on_silence = diagnostics.silence

    def new_client(self, kind: type[C], *, read_only: bool, before_change: Callable[[], None] = no_check) -> C:
        """A client of the caller's own, for a caller that must not wait for others' answers, and that heeds
        ``guards`` itself. The caller closes it; in a shell its connections are kept for others then."""
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
        """For one user, who gives it back."""
        from rmqclient.blocking import BlockingClient

        settings, session = self.settings, self.invocation.session
        if session is not None:
            return session.lend(settings)
        return BlockingClient(settings.credentials(), settings.setting("timeout_s").value, tls=settings.tls())

    def _give_back(self, client: BlockingClient) -> None:
        client.on_silence = None
        if self.invocation.session is not None:
            self.invocation.session.take_back(client)
        else:
            client.close()

    @cached_property
    def answers(self) -> Answers:
        """Asks brokers of which some may not answer. What the others say is the result; the program then ends with the
        status of what was done in part."""
        from rmqadmin.core.servers.broker_answers import Answers  # for those who ask several

        return Answers()

    def forget_answers(self) -> None:
        """Everybody is asked anew."""
        self.__dict__.pop("answers", None)

    def answers_problem(self) -> str | None:
        """Who did not answer; None if all did."""
        return self.answers.problem() if "answers" in self.__dict__ else None

    @cached_property
    def settings(self) -> EffectiveSettings:
        """How servers are reached: what the options, the environment, the context and the file of settings say."""
        return self._options.settings()

    @cached_property
    def permission(self) -> ChangePermission:
        """What the contexts of the servers permit. Code that changes something without ``admin`` asks it itself."""
        return ChangePermission(
            self.guards,
            is_unlocked=self._options.unlock,
            confirmed=self._options.confirm,
            ask_name=self.ask_name,
            permitted=lambda: self.trail.begin(),
        )

    @cached_property
    def trail(self) -> AuditTrail:
        """What the command leaves in the log of changes, if it changes something."""
        return self.new_trail(diagnostics.notice)

    def new_trail(self, tell: Callable[[str], None]) -> AuditTrail:
        """For a change of its own. ``tell`` takes why nothing can be written."""
        from rmqadmin.core.audit.trail import Arguments, AuditTrail  # for those that do

        return AuditTrail(
            self.command,
            self._arguments() if self._arguments is not None else Arguments(),
            is_on=lambda: bool(self.settings.setting("audit").value),
            where=self._where,
            tell=tell,
        )

    def _where(self) -> tuple[str | None, str]:
        """The context and the name servers."""
        context = self.settings.context
        return None if context is None else context.name, self._namesrv_text

    def end_trail(self, result: Result | None, error: BaseException | None = None) -> None:
        """How the command went, in the log of changes, if it is there."""
        if "trail" in self.__dict__:
            self.trail.end(result, error)

    def guards(self, namesrv_addr: str | None = None) -> Sequence[Context]:
        """The contexts whose rules hold for changes at these name servers; None means those of the call."""
        return guards(self.settings, namesrv_addr, lambda error: diagnostics.notice(str(error)))

    @property
    def locked_by(self) -> str | None:
        """The context, read-only or protected, that keeps a dashboard from changing the servers until the user unlocks
        it; None if there is none, or if they did."""
        if self.is_unlocked:
            return None
        locks = (one.name for one in self.guards() if one.settings.read_only or one.settings.protected)
        return next(locks, None)

    @property
    def is_unlocked(self) -> bool:
        return self._options.unlock

    def in_context(self, name: str) -> Call:
        """The same in another context. What the options say of servers is about those of this one, and left behind."""
        options = CommonOptions(context=name, timeout_s=self._options.timeout_s)
        return Call(self.command, options, self.format, self._color, self.invocation)

    @contextmanager
    def shell_session(self) -> Iterator[Session]:
        """For command lines that this call runs: its options hold for them, and they stay in its context. NotFoundError
        and UsageError for a context that cannot be used."""
        from rmqadmin.core.contexts.context import NO_CONTEXT
        from rmqadmin.session import Session

        context = self.settings.context
        session = Session(self._options)
        try:
            if not self._options.context:
                session.pin_context(NO_CONTEXT if context is None else context.name)
            yield session
        finally:
            session.close()

    def context_chosen(self, name: str) -> None:
        """That a command has put a context into use, or ``none``: it counts in the shell that runs it, too. Says what
        comes before it here."""
        from rmqadmin.core.contexts.settings import CONTEXT_VARIABLE

        if self.invocation.session is not None:
            self.invocation.session.use_context(name)
        elif (said := os.environ.get(CONTEXT_VARIABLE, name)) not in ("", name):
            self.notice(f"{CONTEXT_VARIABLE}={said} is set here, and comes before it")

    def ask_name(self, context: Context) -> str | None:
        """The name that a person typed, who is shown that of a protected context. None if nobody can be asked."""
        if self.as_mqadmin or not sys.stdin.isatty():
            return None
        question = f"{self._badge(context)}{context.name} is protected.\nType {context.name} to go on: "
        return diagnostics.ask(question) or ""

    def _badge(self, context: Context | None) -> str:
        if context is None:
            return ""
        from rmqadmin.core.contexts.badge import badge

        return f"{badge(context, has_color=wants_color(self._color, sys.stderr))} "

    @property
    def namesrv_addr(self) -> str:
        """As it was written, for those who ask it without ``admin``. Without a word from anybody, this machine, with a
        notice."""
        self._tell_default_namesrv()
        return self._namesrv_text

    @property
    def namesrv_addrs(self) -> list[str]:
        """The same, one by one."""
        from rmqclient.addresses import parse_addresses

        return parse_addresses(self.namesrv_addr)

    @property
    def _namesrv_text(self) -> str:
        return str(self.settings.setting("namesrv_addr").value)

    def _tell_default_namesrv(self) -> None:
        """Once, before a name server is asked that nobody named. Whoever asks only a broker or a controller needs
        none."""
        if self._has_told_default or self.is_namesrv_given:
            return
        self._has_told_default = True
        where = "-n, RMQADMIN_NAMESRV, NAMESRV_ADDR or a context"
        diagnostics.notice(f"no name server given ({where}): using {NAMESRV_DEFAULT}")

    def check_options(self) -> None:
        """Before anything is shown. UsageError, as ``new_client`` would have it."""
        self.settings.credentials()
        self.settings.tls()

    def reach(self) -> tuple[list[str], dict[str, str]]:
        """Options and variables that lead another run of this program to the same servers, in the same context: keys do
        not stand in a command line, and a context that is only in use keeps its low rank."""
        from rmqadmin.core.contexts.context import NO_CONTEXT, ServerSettings
        from rmqadmin.core.contexts.settings import CONTEXT_VARIABLE, KINDS, Level

        options = self._options
        environment: dict[str, str] = {}
        words = ["--context", options.context] if options.context else []
        words += ["-n", options.namesrv_addr] if options.namesrv_addr else []
        if not options.context:
            context = self.settings.context
            environment[CONTEXT_VARIABLE] = NO_CONTEXT if context is None else context.name
        for kind in (kind for kind in KINDS if kind.key in ServerSettings.__struct_fields__ and kind.variables):
            setting = self.settings.setting(kind.key)
            if setting.level is Level.FLAG and kind.key not in ("namesrv_addr", "output"):
                value = setting.value
                environment[kind.variables[0]] = str(value).lower() if isinstance(value, bool) else str(value)
        return words, environment

    @property
    def is_namesrv_given(self) -> bool:
        return self.settings.setting("namesrv_addr").level != "default"

    @property
    def namesrv_option(self) -> str | None:
        """``-n`` as it was written; None if something else had to say it."""
        return self._options.namesrv_addr

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def notice(self, text: str) -> None:
        diagnostics.notice(text)

    def status(self, text: str | None) -> None:
        diagnostics.status(text)

    @contextmanager
    def counting(self, what: str) -> Iterator[CountDone]:
        """Shows how many of ``what`` are done, from the second second on."""
        from rmqadmin.core.progress import CountDone

        progress = CountDone(self.status, what)
        try:
            yield progress
        finally:
            progress.clear()

    def without_systems_own(
        self, names: Sequence[N], is_systems: Callable[[N], bool], what: str, *, show_all: bool
    ) -> list[N]:
        """The names that people made, with a word about the others, if a person looks at a table; else all names. Or
        what else has a name."""
        is_table = self.format in (Format.TABLE, Format.WIDE)
        if show_all or not is_table or not sys.stdout.isatty():
            return list(names)
        shown = [name for name in names if not is_systems(name)]
        if len(shown) < len(names):
            self.notice(f"{len(names) - len(shown)} {what} are the system's own; --all shows them")
        return shown

    def own_topics(self, topics: Sequence[str], *, show_all: bool) -> list[str]:
        """As ``without_systems_own``."""
        servers = cache(lambda: topics_of_servers(self.admin.cluster_info()))
        return self.without_systems_own(
            topics, lambda topic: is_made_by_brokers(topic, servers()), "topics", show_all=show_all
        )

    def remember(self, kind: str, names: Iterable[str]) -> None:
        """Keeps names for completion: topic, group, cluster or broker."""
        from rmqadmin.names_cache import remember

        remember(self.admin.namesrv_addrs, kind, names)

    def confirm(self, what: str, name: str, *, preview: Result | None = None, namesrv_addr: str | None = None) -> None:
        """Asks a person at a terminal to type ``name`` before ``what`` is done, after showing them ``preview``;
        NotConfirmedError for anything else. Then the context must permit it (ChangeRefusedError); ``namesrv_addr`` if
        the change is made at other name servers than the call's.

        Passes without a question if nobody can be asked, as mqadmin does, so that scripts keep working; with ``--yes``;
        and with ``--output mqadmin``, which never asks.
        """
        self.permission.check_unlocked(namesrv_addr)
        self.confirm_local(what, name, preview=preview)
        self.permission.check(namesrv_addr)

    def confirm_local(self, what: str, name: str, *, preview: Result | None = None) -> None:
        """``confirm`` for what changes nothing on any server."""
        if not self.can_ask:
            return
        view = table_view(Format.TABLE, False, sys.stderr)
        table = "" if preview is None else render(preview, self.command, Format.TABLE, view=view)
        question = f"{table}{self._badge(self.settings.context)}{what}\nType {name} to go on: "
        if diagnostics.ask(question) != name:
            raise NotConfirmedError("nothing was changed", hint="Type the name, or pass --yes.")

    def confirm_bulk(self, what: str, name: str, *, preview: Result | None = None) -> None:
        """As ``confirm``, for what mqadmin has no command for and no script relies on: where nobody can be asked, only
        ``--yes`` will do. UsageError."""
        if not self._options.yes and not sys.stdin.isatty():
            raise UsageError(f"{what} Nobody is there to be asked.", hint="--yes does it; --dry-run shows it.")
        self.confirm(what, name, preview=preview)

    def ask_and_act(self, preview: R, what: str, name: str, act: Callable[[], R]) -> R:
        """The preview under ``--dry-run``; else what ``act`` returns, after ``confirm``."""
        if self.dry_run:
            return preview
        self.confirm(what, name, preview=preview)
        return act()

    @property
    def as_mqadmin(self) -> bool:
        """Whether the answer must be mqadmin's to the byte, with all its quirks."""
        return self.format is Format.MQADMIN

    @property
    def as_document(self) -> bool:
        """Whether the answer is one document, which has a place for the summary."""
        return self.format in DOCUMENTS

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to be asked, and did not decline it."""
        return not self._options.yes and not self.as_mqadmin and sys.stdin.isatty()

    def close(self) -> None:
        session = self.invocation.session
        if session is not None and "admin" in self.__dict__:
            session.note_who_answered(self.admin)
        if "connections" in self.__dict__:
            self._give_back(self.connections)
