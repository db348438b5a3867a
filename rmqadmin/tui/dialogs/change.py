"""The dialog of everything that changes servers, in four steps: what, a preview, the name to type, the outcome.

A dialog is data: its fields, and ``act``, which runs twice with the same answers: as a dry run over a read-only client,
then over a client that may change things (in a read-only dashboard, that one refuses too). Both use the same clock
reading, so ``-10m`` means the same instant in both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any, ClassVar

import msgspec
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import shown_columns
from rmqadmin.core.changes import KEEP, ChangeRow, Step, carry_out, is_unknown, warn, without_foretold
from rmqadmin.core.manifests.undo import carry_out_undoable
from rmqadmin.core.results import Notice, Result, ResultOf, Row, doc
from rmqadmin.core.terminal_text import display_width
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.dialog import Dialog, NameInput
from rmqadmin.tui.dialogs.fields import FieldLine, FormField
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import begin, until_closed, while_open
from rmqadmin.tui.widgets.detail import LongText
from rmqadmin.tui.widgets.tables.columns import column_of
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.errors import RefusedError, RocketMQError

_DELETE = "delete"


class ChangeLine(Row, frozen=True):
    target: Annotated[str, doc("address of the server", key=True)]
    action: Annotated[str, doc("create, change, keep, delete, or what else is done")]
    field: Annotated[str | None, doc("what of it is changed", key=True)]
    before: Annotated[str | None, doc("its value before")]
    after: Annotated[str | None, doc("its value then", vital=True)]
    outcome: Annotated[str | None, doc("✔ if it was done, ✖ if not, ? if that is unknown", sparse=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class ChangeLines(ResultOf[ChangeLine], frozen=True):
    """What would change, or was changed. ``unknown``: whether each of these may have been done, although it failed."""

    steps: list[ChangeRow]
    unknown: Sequence[bool] = ()

    @property
    def changes_nothing(self) -> bool:
        return all(step.action == KEEP for step in self.steps)

    def rows(self) -> Sequence[ChangeLine]:
        return [line for step, unknown in zip_longest(self.steps, self.unknown) for line in _lines(step, unknown)]

    def problem(self) -> str | None:
        failed = [step for step in self.steps if step.error is not None]
        return f"{len(failed)} of {len(self.steps)} failed: {failed[0].error}" if failed else None


def _lines(step: ChangeRow, is_unknown: bool | None) -> Iterator[ChangeLine]:
    """The lines of one step. A deletion has a single line, because all fields go."""
    changes = [] if step.action == _DELETE else step.changes
    sides: list[tuple[str | None, str | None, str | None]] = [(one.field, *one.sides()) for one in changes]
    outcome = "✔ done" if step.done else "? unknown" if is_unknown else "✖ not done" if step.error else None
    for field, before, after in sides or [(None, None, None)]:
        yield ChangeLine(step.target, step.action, field, before, after, outcome, step.error)


CHANGE_DEADLINE_S = 60.0
"""Long enough for many queues on several brokers. A running change cannot be cancelled."""

STEPS = ("what", "preview", "type the name", "outcome")
WHAT, PREVIEW, NAME, OUTCOME = range(len(STEPS))

UNDO = "Undo: "


class Ask(msgspec.Struct, frozen=True):
    """One run of a change. ``said`` are the answers by their fields' names, None for an empty field. Relative times
    count from ``now_ms``. ``notice`` takes messages for the user, and ``undo_by`` the change that undoes this one."""

    admin: DashboardClient
    dry_run: bool
    now_ms: int
    notice: Notice
    said: Mapping[str, Any]
    undo_by: Callable[[Act], None]


Act = Callable[[Ask], Result]


def in_steps(command: str, plan: Callable[[Ask], list[Step]]) -> Act:
    """A change in steps, with a way back. ``plan`` reads the servers and changes nothing. ``command`` does the same in
    a shell; it is part of the undo file's name."""

    def act(ask: Ask) -> Result:
        planned = plan(ask)
        warn(planned, ask.notice)
        if not ask.dry_run:
            done = carry_out_undoable(command, planned, ask.now_ms, ask.notice)
            if done.can_be_undone:
                ask.undo_by(in_steps("undo", lambda again: done.plan_back(again.admin, again.notice)))
            return ChangeLines(done.rows, list(map(is_unknown, done.errors)))
        for refusal in dict.fromkeys(str(each.foretold) for each in planned if isinstance(each.foretold, RefusedError)):
            ask.notice(f"most likely this will not work: {refusal}")
        found = ChangeLines(carry_out(without_foretold(planned), dry_run=True))
        if found.changes_nothing:
            ask.notice("nothing would change")
        return found

    return act


class PreviewTable(RowTable, can_focus=False):
    """Page up and page down of the dialog scroll it, while the name is typed."""

    HAS_SIGNS = False


class ChangeDialog(Dialog):
    """The preview is made when all required fields are filled, again after each choice, and after Enter in a text. Only
    under the preview of what the fields say now can the name be typed; None for ``name`` if the change destroys
    nothing: Enter on the empty line then does it.

    Textual calls the handlers of all classes in the hierarchy. Code that runs after a layout or an answer runs
    ``while_open``, because the dialog may be closing.
    """

    DEFAULT_CLASSES = "dialog -change"
    AUTO_FOCUS = "#form Input, #form OptionList, #form Select"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next field", priority=True),
        Binding("pagedown", "page(1)", "Rows below", show=False),
        Binding("pageup", "page(-1)", "Rows above", show=False),
        bound("undo", shown=True),
    ]

    def __init__(
        self, title: str, act: Act, *, name: str | None, fields: Sequence[FormField] = (), about: str = "",
        totals: Callable[[Any], str] = lambda _: "", lost: str = "",
    ):  # fmt: skip
        """``totals`` sums the rows of a result up in one line; empty for nothing to add up. ``lost``: what nothing
        brings back."""
        super().__init__(title, about)
        self._lost = lost
        self._can_be_undone = False
        """Whether the outcome is shown of a change that can be undone."""
        self._act, self._to_type, self._fields, self._totals = act, name, {one.id: one for one in fields}, totals
        self._names_left: list[str] = []
        self._shown: dict[str, Any] | None = None
        """What was written in the fields of the preview that is shown, or is being made."""
        self._client: DashboardClient | None = None
        self._now_ms = 0
        self._changing = False

    def parts(self) -> Iterable[Widget]:
        width = max((display_width(one.label) for one in self._fields.values()), default=0) + 2
        if self._fields:
            yield Vertical(*(FieldLine(one, width) for one in self._fields.values()), id="form")
            yield Static(id="help", classes="label")
        yield LongText(Static(id="said"), id="saying")
        yield PreviewTable([], id="preview")
        yield Static(id="totals")
        yield Static(id="ask", classes="label")
        yield NameInput(id="name")

    def on_mount(self) -> None:
        self.query("#preview, #totals").set(display=False)
        self._show_name(False)
        self._to_step(WHAT)
        self._preview_if_filled()

    def _to_step(self, step: int) -> None:
        """Shows which of the four steps this is."""
        words = [f"{at} {word}" for at, word in enumerate(STEPS, 1)]
        words[step] = f"[$text-accent b]{words[step]}[/]"
        self.query_one(".dialog--box").border_title = " › ".join(words)

    # --- the fields --------------------------------------------------------------------------------------------------

    def _written(self) -> dict[str, Any]:
        return {name: one.written(self.query_one(f"#{name}")) for name, one in self._fields.items()}

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        with while_open(self):
            field = self._fields.get(event.widget.id or "")
            if field is not None:
                self.query_one("#help", Static).update(literal(field.hint or " "))
            self._ask()

    def on_input_changed(self, event: Input.Changed) -> None:
        """A text is edited: what the preview says no longer holds."""
        if event.input.id != "name" and self._shown is not None and not self._changing:
            with while_open(self):
                if self._written() != self._shown:
                    self.workers.cancel_group(self, "preview")
                    self._show_name(False)
                    self._to_step(WHAT)

    def _preview_if_filled(self) -> None:
        with while_open(self):
            written = self._written()
            is_filled = all(written[name] is not None for name, one in self._fields.items() if one.is_required)
            if is_filled and not self._changing and written != self._shown:
                self.preview()

    on_select_changed = on_option_list_option_highlighted = _preview_if_filled

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._focus_name()

    # --- the preview -------------------------------------------------------------------------------------------------

    def preview(self, *, then_name: bool = False) -> None:
        """Shows what would change; a preview that is still being made is cancelled. Then the name gets the focus,
        unless there may be more to choose."""
        self._now_ms, self._shown = self.dashboard.now_ms(), self._written()
        self._show_name(False)
        then_name = then_name or not self.query("#form Select, #form OptionList")
        begin(self, until_closed, self, self._preview, then_name, group="preview", exclusive=True)

    async def _preview(self, then_name: bool) -> None:
        self.say("asking …")
        self._to_step(PREVIEW)
        found = await self._run(dry_run=True)
        may_go_on = found is not None and self.may_go_on(found)
        self._show_name(may_go_on)
        if may_go_on:
            self._to_step(NAME)
            if then_name:
                self._focus_name()

    def may_go_on(self, result: Any) -> bool:
        """Whether this preview has anything to carry out."""
        return not getattr(result, "changes_nothing", False)

    def is_unfinished(self, result: Any) -> bool:
        """Whether the rest of a change can be carried out by typing the name again."""
        return False

    # --- the name ----------------------------------------------------------------------------------------------------

    def _show_name(self, shown: bool) -> None:
        """Shows or hides the line for the name, empty: it must be typed again for each preview. A protected context
        then asks for its own name too."""
        protected = self.dashboard.settings.protected
        self._names_left = [name for name in (self._to_type, protected) if name is not None] or [""]
        self.query_one("#name", Input).clear()
        self.query("#ask, #name").set(display=shown)
        self._ask()
        self.refresh_bindings()

    def _focus_name(self) -> None:
        name = self.query_one("#name", Input)
        if name.display:
            self.set_focus(name)

    def _ask(self) -> None:
        """Says what to type, and that not all rows are in view."""
        with while_open(self):
            name, table = self._names_left[0], self.query_one(RowTable)
            is_context = len(self._names_left) == 1 and self.dashboard.settings.protected is not None
            why = f"{name} is protected. " if is_context else ""
            more = f"; page down shows all {table.all_count:,} rows" if table.max_scroll_y else ""
            what = f"Type {name} to go on" if name else "Enter here does it"
            what += "; enter goes to this line" if isinstance(self.focused, OptionList) else ""
            self.query_one("#ask", Static).update(literal(f"{why}{what}{more}"))

    def on_row_table_moved(self) -> None:
        self._ask()

    def action_page(self, pages: int) -> None:
        """Scrolls the preview, even while the name is being typed."""
        table = self.query_one(RowTable)
        table.scroll_relative(y=pages * max(1, table.size.height - 2), animate=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self._changing:
            return
        if event.input.id != "name":
            self.preview(then_name=True)
        elif event.value != self._names_left[0]:
            self.say("nothing was changed: that is not the name to type", "$text-error")
        elif len(self._names_left) > 1:
            del self._names_left[0]
            event.input.clear()
            self._ask()
        else:
            self._changing = True
            begin(self, until_closed, self, self._carry_out, group="change")

    # --- the change --------------------------------------------------------------------------------------------------

    async def _carry_out(self) -> None:
        """Until it is done, letters are keys of the dialog alone, and no text can be typed."""
        self.say("changing …")
        self.query("#form").set(disabled=True)
        self._show_name(False)
        try:
            done = await self._run(dry_run=False)
        finally:
            self._changing = False
        goes_on = done is None or self.is_unfinished(done)
        self._to_step(NAME if done is None else OUTCOME)
        self.query("#form").set(disabled=not goes_on)
        self._show_name(goes_on)
        self._focus_name()

    def _to_be_undone_by(self, act: Act) -> None:
        """Keeps the way back, for this dialog and for the screens below. Called in a thread, from the change."""
        first = next((self._shown or {}).get(one.id) for one in self._fields.values()) if self._to_type is None else ""
        title = self._title.removeprefix(UNDO) if self._title.startswith(UNDO) else f"{UNDO}{self._title}"
        name = self._to_type or str(first)
        self.dashboard.last_undo = lambda: ChangeDialog(title, act, name=name, totals=self._totals)
        self._can_be_undone = True

    def _way_back_told(self) -> str:
        if self._can_be_undone:
            return f"u undoes it, but {self._lost}" if self._lost else "u undoes it"
        return f"this cannot be undone: {self._lost}" if self._lost else "this cannot be undone"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if action != "undo" else self._can_be_undone

    def action_undo(self) -> None:
        self.dismiss()
        self.app.call_later(self.dashboard.action_undo)

    async def _run(self, *, dry_run: bool) -> Result | None:
        """Runs the change, shows the result and returns it. On failure, shows the reason and returns None."""
        client = self.dashboard.make_client(read_only=dry_run)
        client.begin(CHANGE_DEADLINE_S)
        notices: list[str] = []

        def notice(text: str) -> None:
            (self.dashboard.settings.tell if client.is_stopped else notices.append)(text)

        self._client, self._can_be_undone = client, False
        try:
            result = await asyncio.to_thread(self._in_thread, client, dry_run, notice, self._shown or {})
        except RocketMQError as error:
            advice = f"\n{error.hint}" if isinstance(error, RocketMQError) and error.hint else ""
            unknown = "" if dry_run or not is_unknown(error) else "it is unknown whether this was done: "
            self.say(f"{unknown}{error}{advice}", "$text-error")
            return None
        except asyncio.CancelledError:
            client.stop()
            raise
        await self._show(result)
        problem = result.problem()
        told = [*([problem] if problem else []), *notices]
        if not dry_run and not self.is_unfinished(result):
            told = [f"{problem or '✔ done'}; {self._way_back_told()}", *notices]
        self.say("\n".join(told or ["this would change:"]), "$text-error" if problem else "")
        return result

    def _in_thread(self, client: DashboardClient, dry_run: bool, notice: Notice, written: dict[str, Any]) -> Result:
        try:
            said = {one.name: one.answer(written[one.id]) for one in self._fields.values()}
            return self._act(Ask(client, dry_run, self._now_ms, notice, said, self._to_be_undone_by))
        except RocketMQError as error:
            if client.is_stopped and not dry_run:  # the dashboard ends: the hint names the way back
                self.dashboard.settings.tell(f"{error}. {error.hint or ''}".rstrip())
            raise
        finally:
            client.close()

    async def _show(self, result: Result) -> None:
        table, totals, rows = self.query_one(RowTable), self.query_one("#totals", Static), result.rows()
        table.set_columns([column_of(column) for column in shown_columns(result, rows, Format.TABLE)])
        keyed = [(str(at), row) for at, row in enumerate(rows)]
        await table.prepare(keyed)
        table.set_rows(keyed)
        table.display = True
        text = self._totals(result)
        totals.update(literal(text))
        totals.display = bool(text)

    def action_close(self) -> None:
        if self._changing:
            self.say("the change is running; its outcome will be shown here", "$text-error")
            return
        if self._client is not None:
            self._client.stop()
        self.dismiss()
