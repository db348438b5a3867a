"""Redrives dead letters, each once, as `dlq redrive` does: with the same plan, ledger and permits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.core.audit.audit_log import AuditedChange
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.redriving import (
    RedrivenLetters,
    chosen_letters,
    letters_so_far,
    plan_letters,
    send_letters,
)
from rmqadmin.core.rate_dial import RateDial, SpeedGauge, limits_text
from rmqadmin.core.results import Result
from rmqadmin.core.units import size
from rmqadmin.tui.dialogs.change import ChangeScreen, Occasion
from rmqadmin.tui.dialogs.inputs import FieldInput
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import while_open
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.java.whole_numbers import decimal_number
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqclient.admin import AdminClient
    from rmqreplay.run.hooks import Hooks, ReplayProgress
    from rmqreplay.sending.permit_service import PermitService

_COMMAND = "rmqadmin tui"
TO_SAME = "--to same"


def _notes(error: RocketMQError) -> list[str]:
    return getattr(error, "__notes__", [])


class RedriveScreen(ChangeScreen):
    """Opens with the preview. While it sends, ``+``, ``-`` and ``p`` change the rate, as they do in a terminal, and
    Escape stops it. If it stops on the way, it shows what was sent, and typing the name again resumes it, as `dlq
    redrive --resume` does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "turn('+')", "Faster"),
        Binding("minus", "turn('-')", "Slower"),
        Binding("p", "turn('p')", "Pause"),
    ]

    def __init__(self, group: str, letters: Sequence[FoundMessage]):
        count = counted(len(letters), "dead letter")
        super().__init__(f"Redrive {count} of {group} to {group} alone", group)
        self._group, self._letters = group, list(letters)
        self._planned: RedrivenLetters | None = None
        self._dial, self._speed = RateDial(None), SpeedGauge()
        self._service: PermitService | None = None
        self._progress: ReplayProgress | None = None
        self.is_done = False

    def form(self) -> Iterable[Widget]:
        yield Static(literal("messages a second at most (empty: no limit; enter plans again)"), classes="label")
        yield FieldInput(id="rate", restrict=r"[0-9.]*")

    def on_mount(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.preview()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "rate" and not self._changing:
            self.preview()

    def _rate(self) -> float | None:
        """The rate that was entered. UsageError if it is no rate."""
        text = self.query_one("#rate", Input).value.strip()
        if not text:
            return None
        rate = decimal_number(text)
        if rate is None or rate <= 0:
            raise UsageError(f"{text} is not a number of messages a second")
        return rate

    # --- the work, in a thread ---------------------------------------------------------------------------------------

    def change(self, admin: AdminClient, occasion: Occasion) -> Result:
        settings = self.dashboard.settings
        if occasion.dry_run:
            rate = self._rate()
            request = chosen_letters(
                ";".join(admin.namesrv_addrs),
                self._group,
                self._letters,
                rate=rate,
                command=_COMMAND,
                credentials=settings.credentials(),
                tls=settings.tls_files(),
                address_map=settings.address_map(),
            )
            try:
                self._planned = plan_letters(request, self._letters, rate)
            except RocketMQError as error:
                if error.hint and TO_SAME in error.hint:  # which this dialog does not do
                    error.hint = f"In a shell: rmqadmin dlq redrive {self._group} {TO_SAME}"
                raise
            job = self._planned.replayed.plan.job
            occasion.notice(f"the same in a shell: rmqadmin dlq redrive --execute --job {job}{limits_text(rate)}")
            return self._planned
        assert self._planned is not None
        client: DashboardClient = admin  # type: ignore[assignment] # the dashboard makes no others
        client.permit_change("a redrive")
        return self._send(client, self._planned)

    def _send(self, client: DashboardClient, planned: RedrivenLetters) -> Result:
        job, rate = planned.replayed.plan.job, planned.replayed.rate
        self._dial, self._speed = RateDial(rate), SpeedGauge()
        problem: str | None = None
        try:
            settings = self.dashboard.settings
            done = send_letters(
                planned, self._letters, self._hooks(client), settings.credentials(), settings.tls_files(),
                settings.address_map(),
            )  # fmt: skip
            self.is_done, problem = True, done.problem()
            return done
        except RocketMQError as error:
            problem = str(error)
            go_on = f"To go on: rmqadmin dlq redrive --resume --job {job}{limits_text(rate)}"
            error.hint = " ".join(filter(None, [*_notes(error), error.hint, go_on]))
            so_far = letters_so_far(planned, self._letters, f"{error}\n{error.hint}")
            if so_far is None:
                raise
            return so_far
        finally:
            self._service = None
            target = ", ".join(planned.replayed.plan.target.topics)
            client.note_change(
                AuditedChange(
                    target=self._group,
                    action=f"redrive of {counted(len(self._letters), 'dead letter')} to {target}, job {job}",
                    done=problem is None,
                    error=problem,
                )
            )

    def _hooks(self, client: DashboardClient) -> Hooks:
        from rmqreplay.run.hooks import Hooks

        def attach(service: PermitService) -> None:
            self._service = service
            self._soon(self._begun)

        def show(progress: ReplayProgress) -> None:
            self._progress = progress
            self._speed.measure(progress.granted)
            if client.is_stopped:  # the dashboard is closed: letters not sent yet stay dead letters
                self._stop()
            self._tell()

        return Hooks(on_service=attach, on_progress=show, on_stage=self._soon_say)

    # --- while it sends ----------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        progress, planned = self._progress, self._planned
        if progress is not None and planned is not None:
            self._soon_say(f"{progress.granted:,} of {planned.summary().selected:,} sent, {self._dial}")

    def _soon(self, act: Callable[[], None]) -> None:
        """Calls ``act`` in the loop, if the work is still running then. Any thread may call this."""
        with suppress(RuntimeError):  # the dashboard has ended
            self._loop.call_soon_threadsafe(self._act, act)

    def _act(self, act: Callable[[], None]) -> None:
        if self._changing:
            with while_open(self):
                act()

    def _soon_say(self, text: str) -> None:
        self._soon(lambda: self._say(text))

    def _begun(self) -> None:
        """Takes the focus off the name, or the keys that change the rate would be typed into it."""
        self.query_one("#preview").focus()
        self.refresh_bindings()

    def action_turn(self, key: str) -> None:
        service = self._service
        if service is not None and self._dial.press(key, self._speed.per_s):
            service.set_rate(self._dial.setting)
            self._tell()

    def _stop(self) -> None:
        """Stops giving permits. The engine ends with an error, and the job stays open."""
        service = self._service
        if service is not None:
            service.close_wave()

    def action_close(self) -> None:
        if self._changing and self._service is not None:
            self._say("stopping …")
            self._stop()
        else:
            super().action_close()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if action != "turn" else self._changing

    # --- showing -----------------------------------------------------------------------------------------------------

    def may_go_on(self, result: Result) -> bool:
        assert isinstance(result, RedrivenLetters)
        return result.summary().selected > (result.summary().would_reject or 0)

    def is_unfinished(self, result: Result) -> bool:
        return isinstance(result, RedrivenLetters) and result.stopped is not None

    @staticmethod
    def _word(dry_run: bool) -> str:
        return "this would be sent:" if dry_run else "done"

    def totals(self, result: Result) -> str:
        """What is sent where, and who gets it; afterwards the outcome."""
        assert isinstance(result, RedrivenLetters)
        found = result.summary()
        if result.stopped is not None:
            return f"{result.sent_count:,} of {found.selected:,} sent so far"
        if not found.executed:
            parts = [f"{found.selected:,} of {size(found.size_bytes)}"]
            if found.target:
                readers = "reads it alone" if found.groups else "does not read it now"
                parts[0] += f" to {found.target}: {self._group} {readers}"
            if found.excluded:
                parts.append(f"{found.excluded:,} redriven before")
            if found.perhaps_sent:
                parts.append(f"perhaps sent before, by jobs of earlier versions: {found.perhaps_sent}")
            return "; ".join(parts)
        audited = (
            ""
            if found.audited is None
            else (f"; found there {found.audited:,}, missing {found.missing:,}, doubled {found.doubled:,}")
        )
        return (
            f"{found.delivered or 0:,} sent, {found.rejected or 0:,} rejected, in {found.seconds or 0:.1f} s{audited}"
        )
