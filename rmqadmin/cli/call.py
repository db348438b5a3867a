"""What a command gets besides its own options: the admin client, the clock, and a way to ask the user.

A command takes a ``Call`` first and returns a ``Result``; it prints nothing and never exits.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.cli import registry
from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import DOCUMENTS, Color, Format, wants_color
from rmqadmin.cli.output.rendering import render, table_view
from rmqadmin.core.contexts.defaults import NAMESRV_DEFAULT
from rmqadmin.core.contexts.permission import ChangePermission, guards
from rmqadmin.core.results import Result
from rmqadmin.core.system_names import is_made_by_brokers, topics_of_servers
from rmqproto.errors import RocketMQError, UsageError

if TYPE_CHECKING:
    from rmqadmin.cli.session import Session
    from rmqadmin.core.audit.trail import Arguments, AuditTrail
    from rmqadmin.core.contexts.context import Context
    from rmqadmin.core.contexts.settings import EffectiveSettings
    from rmqadmin.core.progress import CountDone
    from rmqadmin.core.servers.broker_answers import Answers
    from rmqclient.admin import AdminClient
    from rmqclient.blocking import BlockingClient

C = TypeVar("C", bound="AdminClient")
R = TypeVar("R", bound=Result)
N = TypeVar("N")


_told_overruled: list[object] = []
"""The contexts of which a person was told in this process."""


def no_check() -> None:
    """The check before each change, for a client that has its own rules."""


class NotConfirmedError(RocketMQError):
    """The user was asked and did not say yes. Ends with status 1, like every refusal."""


class Call:
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
        self.command = command
        self.format = format
        self.dry_run = options.dry_run
        self._options = options
        self._color = color
        self.invocation = invocation or Invocation()
        self._arguments = arguments
        self._has_told_default = False
        self.asks_servers = False
        """Whether a client was made."""

    @cached_property
    def admin(self) -> AdminClient:
        """The client, not yet connected. Under ``--dry-run`` it refuses every request that could change something,
        whatever the command does; otherwise the context must permit the first such request."""
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

    def answers_problem(self) -> str | None:
        """Which brokers did not answer; None if all did."""
        return self.answers.problem() if "answers" in self.__dict__ else None

    @cached_property
    def settings(self) -> EffectiveSettings:
        """How servers are reached, from the options, the environment, the context and the settings file."""
        return self._options.settings()

    def asking_limited(self) -> AbstractContextManager[None]:
        """The limit of ``--parallel``, or of its setting. It must last until the answer is shown, because some are
        read while they are shown."""
        setting = self.settings.setting("parallel")
        if setting.level == "default":
            return nullcontext()
        from rmqadmin.core.targets import asking_at_once  # 10 ms, which usage errors do not need

        return asking_at_once(setting.value)

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
        from rmqadmin.core.audit.trail import Arguments, AuditTrail  # only for changes

        return AuditTrail(
            self.command,
            self._arguments() if self._arguments is not None else Arguments(),
            is_on=lambda: bool(self.settings.setting("audit").value),
            where=self._where,
            tell=tell,
        )

    def _where(self) -> tuple[str | None, str]:
        """The context, if it counts, and the name servers."""
        context = self.settings.counting_context()
        return None if context is None else context.name, self._namesrv_text

    def end_trail(self, result: Result | None, error: BaseException | None = None) -> None:
        """Records how the command went, if it has an entry in the log of changes."""
        if "trail" in self.__dict__:
            self.trail.end(result, error)

    def guards(self, namesrv_addr: str | None = None) -> Sequence[Context]:
        """The contexts whose rules hold for changes at these name servers; None means those of the call."""
        return guards(self.settings, namesrv_addr, lambda error: diagnostics.notice(str(error)))

    @property
    def locked_by(self) -> str | None:
        """The read-only or protected context that keeps a dashboard from changing the servers until the user unlocks
        it; None if there is none, or if the user did."""
        if self.is_unlocked:
            return None
        locks = (one.name for one in self.guards() if one.settings.read_only or one.settings.protected)
        return next(locks, None)

    @property
    def is_unlocked(self) -> bool:
        return self._options.unlock

    def in_context(self, name: str) -> Call:
        """The same call in another context. Options about servers are left behind, because they are about this
        context's."""
        options = CommonOptions(context=name, timeout_s=self._options.timeout_s, parallel=self._options.parallel)
        return Call(self.command, options, self.format, self._color, self.invocation)

    @contextmanager
    def shell_session(self) -> Iterator[Session]:
        """A session for command lines that this call runs. The call's options apply to them, and they stay in its
        context. NotFoundError and UsageError for a context that cannot be used."""
        from rmqadmin.cli.session import Session
        from rmqadmin.core.contexts.context import NO_CONTEXT

        context = self.settings.context
        session = Session(self._options)
        try:
            if not self._options.context:
                session.pin_context(NO_CONTEXT if context is None else context.name)
            yield session
        finally:
            session.close()

    def context_chosen(self, name: str) -> None:
        """Takes note that a command has put a context (or ``none``) into use: it applies to the shell that runs the
        command, too. Warns if the environment overrides it."""
        from rmqadmin.core.contexts.context import NO_CONTEXT
        from rmqadmin.core.contexts.settings import CONTEXT_VARIABLE

        if self.invocation.session is not None:
            self.invocation.session.use_context(name)
        elif (said := os.environ.get(CONTEXT_VARIABLE, name)) not in ("", name):
            self.notice(f"{CONTEXT_VARIABLE}={said} is set here and takes precedence")
        found = None if name == NO_CONTEXT else self._options.settings().overruled_context()
        if found is not None:
            self.notice(f"{found[1].source}={found[1].value} is set here, and its name servers count; unset it")

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
        from rmqadmin.core.contexts.badge import badge

        return f"{badge(context, has_color=wants_color(self._color, sys.stderr))} "

    @property
    def namesrv_addr(self) -> str:
        """The name servers as written, for callers that ask them without ``admin``. If none is given: this machine,
        with a notice."""
        self._tell_default_namesrv()
        return self._namesrv_text

    @property
    def namesrv_addrs(self) -> list[str]:
        """The addresses in ``namesrv_addr``, one by one."""
        from rmqclient.addresses import parse_namesrvs

        return parse_namesrvs(self.namesrv_addr)

    @property
    def _namesrv_text(self) -> str:
        return str(self.settings.setting("namesrv_addr").value)

    def _tell_default_namesrv(self) -> None:
        """Gives a notice, once, before the default name server is asked. Commands that ask only a broker or a
        controller need none."""
        if self._has_told_default:
            return
        self._has_told_default = True
        if self.is_namesrv_given:
            self._tell_overruled_context()
            return
        where = "-n, RMQADMIN_NAMESRV, NAMESRV_ADDR or a context"
        diagnostics.notice(f"no name server given ({where}): using {NAMESRV_DEFAULT}")

    def _tell_overruled_context(self) -> None:
        """Gives a person a notice, once in a shell, if the environment's name servers count in place of the context's.
        Scripts that set the variable know what they do."""
        if not sys.stderr.isatty() or self.settings.setting("namesrv_addr").level != "environment":
            return
        found = self.settings.overruled_context()
        if found is not None and found not in _told_overruled:
            _told_overruled.append(found)
            context, said = found
            other = f"not the context {context.name} ({context.settings.namesrv_addr})"
            diagnostics.notice(
                f"{said.source}={said.value} counts here, {other}; --context {context.name} asks that one"
            )

    def check_options(self) -> None:
        """Checks the options before anything is shown. UsageError, as from ``new_client``."""
        self.settings.credentials()
        self.settings.tls()
        self.settings.address_map()

    def reach(self) -> tuple[list[str], dict[str, str]]:
        """Options and variables with which another run of this program reaches the same servers in the same context.
        Keys do not go into a command line, and a context that is merely in use keeps its low rank."""
        from rmqadmin.core.contexts.context import NO_CONTEXT, ServerSettings, setting_text
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
                environment[kind.variables[0]] = setting_text(setting.value)
        return words, environment

    @property
    def is_namesrv_given(self) -> bool:
        return self.settings.setting("namesrv_addr").level != "default"

    @property
    def namesrv_option(self) -> str | None:
        """``-n`` as written; None if it was not given."""
        return self._options.namesrv_addr

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def notice(self, text: str) -> None:
        diagnostics.notice(text)

    def notice_if_no_broker(self) -> None:
        """For a list that is empty: gives a notice if it is because no name server knows a broker."""
        from rmqadmin.core.targets import NO_BROKER

        if not self.admin.cluster_info().broker_addr_table:
            self.notice(f"{NO_BROKER}; start one, or name others with -n")

    def tell_if_typed(self, what: str) -> None:
        """A notice before standard input is read, if a person is to type it: otherwise the program seems to hang."""
        if sys.stdin.isatty():
            self.notice(f"type {what}; Ctrl-D at the beginning of a line ends it")

    def status(self, text: str | None) -> None:
        diagnostics.status(text)

    @contextmanager
    def counting(self, what: str) -> Iterator[CountDone]:
        """Shows how many of ``what`` are done, once a second has passed."""
        from rmqadmin.core.progress import CountDone

        progress = CountDone(self.status, what)
        try:
            yield progress
        finally:
            progress.clear()

    def without_systems_own(
        self, names: Sequence[N], is_systems: Callable[[N], bool], what: str, *, show_all: bool
    ) -> list[N]:
        """If a person looks at a table: the names that users made, with a notice about the others. Otherwise all names.
        Also for objects that have a name."""
        is_table = self.format in (Format.TABLE, Format.WIDE)
        if show_all or not is_table or not sys.stdout.isatty():
            return list(names)
        shown = [name for name in names if not is_systems(name)]
        if len(shown) < len(names):
            self.notice(f"{len(names) - len(shown)} system {what} are hidden; --all shows them")
        return shown

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
        where the change is made, if not at the call's name servers.

        Where nobody can be asked, a command of our noun groups needs ``--yes`` (UsageError); mqadmin's commands act, so
        that its scripts keep working. ``is_said``: another option of the command line has said yes there.
        """
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

    @property
    def as_mqadmin(self) -> bool:
        """Whether the answer must match mqadmin's byte for byte, with all its quirks."""
        return self.format is Format.MQADMIN

    @property
    def as_document(self) -> bool:
        """Whether the answer is one document, which has room for the summary."""
        return self.format in DOCUMENTS

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked, and has not declined with an option."""
        return not self._options.yes and not self.as_mqadmin and sys.stdin.isatty()

    def close(self) -> None:
        session = self.invocation.session
        if session is not None and "admin" in self.__dict__:
            session.note_who_answered(self.admin)
        if "connections" in self.__dict__:
            self._give_back(self.connections)
