"""Which servers a command is for, and how they are reached: options, environment, context, defaults."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import DOCUMENTS, Color, Format, parse_format
from rmqadmin.core.contexts.context import NAMESRV_DEFAULT
from rmqadmin.core.contexts.permission import guards
from rmqclient.addresses import parse_namesrvs
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.core.contexts.context import Context
    from rmqadmin.core.contexts.settings import EffectiveSettings
    from rmqadmin.core.progress import CountDone


N = TypeVar("N")


def color_of(option: Color, settings: EffectiveSettings) -> Color:
    """``--color``, else the settings. UsageError for an invalid word in the file."""
    if option is not Color.AUTO:
        return option
    setting = settings.setting("color")
    try:
        return Color(setting.value)
    except ValueError:
        raise UsageError(f"{setting.source}: color must be one of {', '.join(Color)}") from None


_told_overruled: list[object] = []
"""The contexts of which a person was told in this process."""


class CallContext:
    """The settings of one run of a command, and what it tells."""

    def __init__(self, command: str, options: CommonOptions, invocation: Invocation):
        self.command = command
        self.dry_run = options.dry_run
        self.invocation = invocation
        self._options = options
        self._has_told_default = False

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def notice(self, text: str) -> None:
        diagnostics.notice(text)

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

    @cached_property
    def format(self) -> Format:
        """How the answer is shown: ``--output``, else ``-o`` before the command, else the settings. UsageError, as from
        ``color``."""
        said, before_command = self._options.output, self.invocation.format_option
        if self._options.json_fields is not None:
            if said is not None or before_command is not None:
                raise UsageError("--json is a format of its own", hint="Leave out --output.")
            return Format.JSON
        if self._options.jq is not None:
            raise UsageError("--jq needs --json FIELDS")
        if said is not None:
            return parse_format(said, "--output")
        if before_command is not None:
            return parse_format(before_command, "-o")
        setting = self.settings.setting("output")
        return parse_format(setting.value, setting.source)

    @cached_property
    def color(self) -> Color:
        return color_of(self.invocation.color, self.settings)

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
        from rmqadmin.core.servers.broker_answers import asking_at_once  # 10 ms, which usage errors do not need

        return asking_at_once(setting.value)

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

    @property
    def namesrv_addr(self) -> str:
        """The name servers as written, for callers that ask them without ``admin``. If none is given: this machine,
        with a notice."""
        self._tell_default_namesrv()
        return str(self.settings.setting("namesrv_addr").value)

    @property
    def namesrv_addrs(self) -> list[str]:
        """The addresses in ``namesrv_addr``, one by one."""
        return parse_namesrvs(self.namesrv_addr)

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

    @property
    def is_namesrv_given(self) -> bool:
        return self.settings.setting("namesrv_addr").level != "default"

    @property
    def namesrv_option(self) -> str | None:
        """``-n`` as written; None if it was not given."""
        return self._options.namesrv_addr

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
