"""Redrives dead letters, each once, as `dlq redrive` does: with the same plan, ledger and permits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from rmqadmin.core.audit_trail import AuditedChange
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.redriving import (
    RedrivenLetters,
    ReplayTotals,
    chosen_letters,
    letters_so_far,
    plan_letters,
    send_letters,
)
from rmqadmin.core.progress import RateDial, SpeedGauge, limits_text
from rmqadmin.core.units import size
from rmqadmin.tui.dialogs.change import Ask, ChangeDialog
from rmqadmin.tui.dialogs.fields import FormField
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.until_closed import while_open
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.java.java_numbers import decimal_number
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqreplay.run.job import Hooks, ReplayProgress
    from rmqreplay.sending.permit_service import PermitService

_COMMAND = "rmqadmin tui"
_TO_GROUP, _TO_SAME, _TO_TOPIC = "group", "same", "topic"


def _rate(text: str) -> float:
    rate = decimal_number(text)
    if rate is None or rate <= 0:
        raise UsageError(f"{text} is not a number of messages a second")
    return rate


def _readers_text(group: str, found: ReplayTotals) -> str:
    """Which groups get the messages, and which of them get them again."""
    if found.groups is None:
        return "no group reads it now"
    if found.groups == group:
        return f"{group} reads it alone"
    again = f", of which {found.groups_again} did not fail" if found.groups_again else ""
    return f"read by {found.groups}{again}"


class RedriveDialog(ChangeDialog):
    """While it sends, ``+``, ``-`` and ``.`` change or hold the rate, and Escape stops it. If it
    stops on the way, it shows what was sent, and typing the name again resumes it, as `dlq redrive --resume` does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("faster", "turn('+')", shown=True),
        bound("slower", "turn('-')", shown=True),
        bound("hold", "turn('p')", shown=True),
    ]

    def __init__(self, group: str, letters: Sequence[FoundMessage]):
        title = f"Redrive {counted(len(letters), 'dead letter')} of {group}"
        targets = {
            f"{group} only: no other group gets them": _TO_GROUP,
            "the topics they came from: every group that reads them": _TO_SAME,
            "another topic": _TO_TOPIC,
        }
        to = FormField(name="to", label="to", value=_TO_GROUP, options=targets, is_list=True)
        topic = FormField(name="topic", label="topic", hint="if they go to another topic")
        rate = FormField(name="rate", label="at most", example="no limit", hint="messages a second", parse=_rate)
        super().__init__(
            title, self._redrive, name=group, fields=[to, topic, rate], totals=self._outcome,
            lost="the messages are sent",
        )  # fmt: skip
        self._group, self._letters = group, list(letters)
        self._planned: RedrivenLetters | None = None
        self._dial, self._speed = RateDial(None), SpeedGauge()
        self._service: PermitService | None = None
        self._progress: ReplayProgress | None = None
        self.is_done = False

    def on_mount(self) -> None:
        self._loop = asyncio.get_running_loop()

    def preview(self, *, then_name: bool = False) -> None:
        """The first one leads to the name: most redrives go where the first choice says."""
        super().preview(then_name=then_name or self._shown is None)

    # --- the work, in a thread ---------------------------------------------------------------------------------------

    def _redrive(self, ask: Ask) -> RedrivenLetters:
        if not ask.dry_run:
            assert self._planned is not None
            ask.admin.permit_change("a redrive")
            return self._send(ask.admin, self._planned)
        settings, rate, to = self.dashboard.settings, ask.said["rate"], ask.said["to"]
        if to == _TO_TOPIC and ask.said["topic"] is None:
            raise UsageError("to which topic?")
        request = chosen_letters(
            ";".join(ask.admin.namesrv_addrs), self._group, self._letters,
            to=f"{to}:{ask.said['topic']}" if to == _TO_TOPIC else to, rate=rate, command=_COMMAND,
            access=settings.access(),
        )  # fmt: skip
        try:
            self._planned = plan_letters(request, self._letters, rate)
        except RocketMQError as error:
            if error.hint and f"--to {_TO_SAME}" in error.hint:
                error.hint = "Choose the topics they came from."
            raise
        job = self._planned.replayed.plan.job
        ask.notice(f"the same in a shell: rmqadmin dlq redrive --execute --job {job}{limits_text(rate)}")
        return self._planned

    def _send(self, client: DashboardClient, planned: RedrivenLetters) -> RedrivenLetters:
        plan, rate, settings = planned.replayed.plan, planned.replayed.rate, self.dashboard.settings
        self._dial, self._speed = RateDial(rate), SpeedGauge()
        problem: str | None = None
        try:
            done = send_letters(planned, self._letters, self._hooks(client), settings.access())
            self.is_done, problem = True, done.problem()
            return done
        except RocketMQError as error:
            problem = str(error)
            go_on = f"To go on: rmqadmin dlq redrive --resume --job {plan.job}{limits_text(rate)}"
            error.hint = " ".join(filter(None, [*getattr(error, "__notes__", []), error.hint, go_on]))
            so_far = letters_so_far(planned, self._letters, f"{error}\n{error.hint}")
            if so_far is None:
                raise
            return so_far
        finally:
            self._service = None
            what = f"redrive of {counted(len(self._letters), 'dead letter')} to {', '.join(plan.target.topics)}"
            action = f"{what}, job {plan.job}"
            client.note_change(AuditedChange(target=self._group, action=action, done=problem is None, error=problem))

    def _hooks(self, client: DashboardClient) -> Hooks:
        from rmqreplay.run.job import Hooks

        def attach(service: PermitService) -> None:
            self._service = service

        def show(progress: ReplayProgress) -> None:
            self._progress = progress
            self._speed.measure(progress.granted)
            if client.is_stopped:  # the dashboard is closed: letters not sent yet stay dead letters
                self._stop()
            self._tell()

        return Hooks(on_service=attach, on_progress=show, on_stage=self._say_soon)

    # --- while it sends ----------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        progress, planned = self._progress, self._planned
        if progress is not None and planned is not None:
            self._say_soon(f"{progress.granted:,} of {planned.summary().selected:,} sent, {self._dial}")

    def _say_soon(self, text: str) -> None:
        """Says it in the loop, if the work is still running then. Any thread may call this."""

        def say() -> None:
            if self._changing:
                with while_open(self):
                    self.say(text)

        with suppress(RuntimeError):  # the dashboard has ended
            self._loop.call_soon_threadsafe(say)

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
            self.say("stopping …")
            self._stop()
        else:
            super().action_close()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if action != "turn" else self._changing

    # --- showing -----------------------------------------------------------------------------------------------------

    def may_go_on(self, result: RedrivenLetters) -> bool:
        return result.summary().selected > (result.summary().would_reject or 0)

    def is_unfinished(self, result: RedrivenLetters) -> bool:
        return result.stopped is not None

    def _outcome(self, result: RedrivenLetters) -> str:
        """What is sent where, and who gets it; afterwards the outcome."""
        found = result.summary()
        if result.stopped is not None:
            return f"{result.sent_count:,} of {found.selected:,} sent so far"
        if found.executed:
            audit = f"; found there {found.audited:,}, missing {found.missing:,}, doubled {found.doubled:,}"
            sent = f"{found.delivered or 0:,} sent, {found.rejected or 0:,} rejected, in {found.seconds or 0:.1f} s"
            return sent if found.audited is None else sent + audit
        parts = [f"{found.selected:,} of {size(found.size_bytes)}"]
        if found.target:
            parts[0] += f" to {found.target}: {_readers_text(self._group, found)}"
        if found.excluded:
            parts.append(f"{found.excluded:,} redriven before")
        if found.perhaps_sent:
            parts.append(f"perhaps sent before, by jobs of earlier versions: {found.perhaps_sent}")
        return "; ".join(parts)
