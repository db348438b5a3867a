"""The base of every dialog that changes something: it shows what would change, asks for the name, makes the change, and
shows the outcome.

The same core function runs twice: as a dry run over a read-only client, then over a client that may change things (in a
read-only dashboard, that one refuses too). Both use the same clock reading, so ``-10m`` means the same instant in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import shown_columns
from rmqadmin.core.results import Notice, Result
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.dialog import PICTURE_KEY, Dialog
from rmqadmin.tui.dialogs.inputs import NameInput
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import until_closed, while_open
from rmqadmin.tui.widgets.tables.columns import Column, column_of
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqadmin.tui.widgets.texts.long_text import LongText
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard
    from rmqclient.admin import AdminClient

CHANGE_DEADLINE_S = 60.0
"""Long enough for many queues on several brokers. A running change cannot be cancelled."""


_KEY_LINE_HEIGHT = 1
_PREVIEW_HEIGHT_MIN = 3


class Occasion(msgspec.Struct, frozen=True):
    """One run of a change. Relative times count from ``now_ms``. ``notice`` takes messages for the user."""

    dry_run: bool
    now_ms: int
    notice: Notice


class PreviewTable(RowTable):
    """Shows what would change. Enter goes to the input below, if that is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Go on")]
    HAS_SIGNS = False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "select_cursor":
            return any(line.display for line in self.screen.query("#name"))
        return action != "sort" or self.all_count > 1


class ChangeScreen(Dialog[None]):
    """Subclasses give a title, the name to type, ``form`` and ``change``, and call ``preview``. If the form has no
    input, Enter goes from the preview to the name.

    Textual calls the handlers of all classes in the hierarchy, the most derived first, so handlers of subclasses do not
    call super. Code that runs after a layout or an answer runs ``while_open``, because the dialog may be closing.
    """

    DEFAULT_CLASSES = "dialog"
    AUTO_FOCUS = "#form Input, RowTable"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("pagedown", "page(1)", "Rows below", show=False),
        Binding("pageup", "page(-1)", "Rows above", show=False),
        PICTURE_KEY,
    ]

    def __init__(self, title: str, name_to_type: str | None):
        """``name_to_type`` is None if the change destroys nothing. Enter on the empty line then carries it out."""
        super().__init__()
        self._title, self._name_to_type = title, name_to_type
        self._names_left: list[str] = []
        self._client: DashboardClient | None = None
        self._now_ms = 0
        self._changing = False
        self._rows_hidden = False

    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def form(self) -> Iterable[Widget]:
        return ()

    def change(self, admin: AdminClient, occasion: Occasion) -> Result:
        """Makes the change. Called twice, in a thread: as a dry run and for real."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog--box"):
            yield Static(literal(self._title), classes="dialog--title")
            with Vertical(id="form"):
                yield from self.form()
            with LongText(id="saying"):
                yield Static("", id="said")
            yield PreviewTable([], id="preview")
            yield Static("", id="totals")
            yield Static("", id="ask", classes="label")
            yield NameInput(id="name")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query("#preview, #totals").set(display=False)
        self._show_name(False)
        self.screen_layout_refresh_signal.subscribe(self, self._laid_out)

    def _show_name(self, shown: bool) -> None:
        """Shows or hides the input of the name, which is only shown under a preview. A protected context then asks for
        its own name too."""
        protected = self.dashboard.settings.protected
        self._names_left = [name for name in (self._name_to_type, protected) if name is not None] or [""]
        self.query_one("#name", Input).clear()  # it must be typed again for each preview
        self.query("#ask, #name").set(display=shown)
        self._ask()
        self.refresh_bindings()

    def _ask(self) -> None:
        name = self._names_left[0]
        is_context = len(self._names_left) == 1 and self.dashboard.settings.protected is not None
        why = f"{name} is protected. " if is_context else ""
        what = f"Type {name} to go on" if name else "Enter here does it"
        if isinstance(self.focused, PreviewTable):
            what += "; enter goes to this line"  # letters are keys of the dialog or the table
        row_count = self.query_one("#preview", RowTable).all_count
        more = f"; page down shows all {row_count:,} rows" if self._rows_hidden else ""
        self.query_one("#ask", Static).update(literal(f"{why}{what}{more}"))

    # --- layout ------------------------------------------------------------------------------------------------------

    def _laid_out(self, screen: Screen[Any]) -> None:
        with while_open(self):
            self._fit()

    def _fit(self) -> None:
        """Gives the preview the height that everything else leaves over. Called after each layout. The preview can be
        scrolled, but the input below it must be in view."""
        box, preview = self.query_one(".dialog--box"), self.query_one("#preview", RowTable)
        others = [child for child in box.children if child.display and child is not preview]
        taken = sum(child.outer_size.height + child.styles.margin.height for child in others)
        room = self.size.height - _KEY_LINE_HEIGHT - box.gutter.height - taken
        height = max(_PREVIEW_HEIGHT_MIN, room)
        preview.styles.max_height = height
        rows_hidden = preview.all_count >= height
        if rows_hidden != self._rows_hidden:  # or it would be laid out again for ever
            self._rows_hidden = rows_hidden
            self._ask()

    def on_descendant_focus(self) -> None:
        with while_open(self):
            self._ask()

    def action_page(self, pages: int) -> None:
        """Scrolls the preview, even while the name is being typed."""
        preview = self.query_one("#preview", RowTable)
        preview.scroll_relative(y=pages * max(1, preview.size.height - 2), animate=False)

    # --- the preview -------------------------------------------------------------------------------------------------

    def preview(self) -> None:
        """Shows what would change. Cancels a preview that is still being made."""
        self._now_ms = self.dashboard.now_ms()
        self._show_name(False)
        self.run_worker(until_closed(self, self._preview), group="preview", exclusive=True)

    async def _preview(self) -> None:
        self._say("asking …")
        found = await self._run(dry_run=True)
        may_go_on = found is not None and self.may_go_on(found)
        self._show_name(may_go_on)
        if may_go_on:
            self.previewed()

    def may_go_on(self, result: Result) -> bool:
        """Whether this preview has anything to carry out."""
        return True

    def is_unfinished(self, result: Result) -> bool:
        """Whether the rest of a change can be carried out by typing the name again."""
        return False

    def previewed(self) -> None:
        """Moves the focus when the preview is there."""
        self.query_one("#name" if self.query("#form Input") else "#preview").focus()

    def on_row_table_chosen(self) -> None:
        name = self.query_one("#name", Input)
        if name.display:
            name.focus()

    # --- the change --------------------------------------------------------------------------------------------------

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id != "name" or self._changing:
            return
        if event.value != self._names_left[0]:
            self._say("nothing was changed: that is not the name to type", is_error=True)
            return
        if len(self._names_left) > 1:
            del self._names_left[0]
            event.input.clear()
            self._ask()
            return
        self._changing = True
        self.run_worker(until_closed(self, self._carry_out), group="change")

    async def _carry_out(self) -> None:
        self._say("changing …")
        try:
            done = await self._run(dry_run=False)
        finally:
            self._changing = False
            self.refresh_bindings()
        if done is not None:
            self._show_name(self.is_unfinished(done))
            self.query_one("#preview", RowTable).focus()

    async def _run(self, *, dry_run: bool) -> Result | None:
        """Runs the change, shows the result and returns it. On failure, shows the reason and returns None."""
        client = self.dashboard.make_client(read_only=dry_run)
        client.begin(CHANGE_DEADLINE_S)
        notices: list[str] = []

        def notice(text: str) -> None:
            (self.dashboard.settings.tell if client.is_stopped else notices.append)(text)

        occasion = Occasion(dry_run, self._now_ms, notice)
        self._client = client
        try:
            result = await asyncio.to_thread(self._in_thread, client, occasion)
        except (RocketMQError, OSError) as error:  # OSError: the undo file could not be written
            advice = f"\n{error.hint}" if isinstance(error, RocketMQError) and error.hint else ""
            self._say(f"{error}{advice}", is_error=True)
            return None
        except asyncio.CancelledError:
            client.stop()
            raise
        await self._show(result)
        problem = result.problem()
        self._say("\n".join([*notices, *([problem] if problem else [])]) or self._word(dry_run), is_error=bool(problem))
        return result

    @staticmethod
    def _word(dry_run: bool) -> str:
        return "this would change:" if dry_run else "done"

    def _in_thread(self, client: DashboardClient, occasion: Occasion) -> Result:
        try:
            return self.change(client, occasion)
        except RocketMQError as error:
            if client.is_stopped and not occasion.dry_run:  # the dashboard ends: the hint names the way back
                self.dashboard.settings.tell(f"{error}. {error.hint or ''}".rstrip())
            raise
        finally:
            client.close()

    # --- showing -----------------------------------------------------------------------------------------------------

    def totals(self, result: Result) -> str:
        """The totals of all rows in one line, before and after. Empty if there is nothing to add up."""
        return ""

    async def _show(self, result: Result) -> None:
        table = self.query_one("#preview", RowTable)
        rows = [(str(at), row) for at, row in enumerate(result.rows())]
        table.set_columns(result_columns(result))
        await table.prepare(rows)
        table.set_rows(rows)
        table.display = True
        text = self.totals(result)
        totals = self.query_one("#totals", Static)
        totals.update(literal(text))
        totals.display = bool(text)
        self._ask()

    def _say(self, text: str, *, is_error: bool = False) -> None:
        lines = [literal(line, "$text-error" if is_error else "") for line in text.split("\n")]
        self.query_one("#said", Static).update(Content("\n").join(lines))

    def action_close(self) -> None:
        if self._changing:
            self._say("the change is running; its outcome will be shown here", is_error=True)
            return
        if self._client is not None:
            self._client.stop()
        self.dismiss()


def result_columns(result: Result) -> list[Column]:
    """The columns of a result as in ``--output table``."""
    return [column_of(column) for column in shown_columns(result, result.rows(), Format.TABLE)]
