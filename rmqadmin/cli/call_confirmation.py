"""Whether a command may change something: the context's permission, a person's yes, and the log of changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.cli import registry
from rmqadmin.cli.call_context import CallContext
from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import Color, Format, wants_color
from rmqadmin.cli.output.rendering import render, table_view
from rmqadmin.core.contexts.permission import ChangePermission
from rmqadmin.core.results import Result
from rmqproto.errors import RocketMQError, UsageError

if TYPE_CHECKING:
    from rmqadmin.core.audit_trail import Arguments, AuditTrail
    from rmqadmin.core.contexts.context import Context


R = TypeVar("R", bound=Result)


class NotConfirmedError(RocketMQError):
    """The user was asked and did not say yes. Ends with status 1, like every refusal."""


class CallConfirmation(CallContext):
    """What a change passes before it is made."""

    def __init__(
        self,
        command: str,
        options: CommonOptions,
        format: Format,
        color: Color,
        invocation: Invocation,
        arguments: Callable[[], Arguments] | None,
    ):
        super().__init__(command, options, format, color, invocation)
        self._arguments = arguments

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

        return f"{badge(context, has_color=wants_color(self._color, sys.stderr))} "
