"""The line that ``:`` opens over the screen below, with its candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from rmqadmin.cli.prompt.candidates import LineSoFar, Offer
from rmqadmin.core.contexts.context_store import PREVIOUS
from rmqadmin.core.near_names import did_you_mean
from rmqadmin.tui.command_line.completion import KnownNames, offered
from rmqadmin.tui.command_line.understood import PLACES, CommandAsked, PlaceAsked, understand
from rmqadmin.tui.dialogs.dialog import Dialog
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import until_closed
from rmqadmin.tui.widgets.compact_input import CompactInput
from rmqadmin.tui.widgets.key_line import PICTURE_KEY, KeyLine
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard

SHOWN_MAX = 8
_NAME_WIDTH = 30
_COMPLETION = "completion"
_HINT = "topics, group NAME, or any command of rmqadmin"


class CommandInput(CompactInput):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Run")]


class CommandLineScreen(Dialog[PlaceAsked | CommandAsked | None]):
    """Returns the place or command that was asked for, or None. ``lines_before`` are the earlier lines, the latest
    last; this screen adds to them."""

    AUTO_FOCUS = "#command"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", "Complete", priority=True),
        Binding("shift+tab", "complete(-1)", "Complete backwards", show=False, priority=True),
        Binding("up", "before(-1)", "Earlier", priority=True),  # or the box around the line would take it
        Binding("down", "before(1)", "Later", show=False),
        Binding("ctrl+y", "copy_line", "Copy the line"),
        Binding("escape", "give_up", "Close"),
        PICTURE_KEY,
    ]

    def __init__(self, text: str, lines_before: list[str]):
        super().__init__()
        self._text = text
        self._lines_before = lines_before
        self._at = len(lines_before)
        self._offer = Offer(0)
        self._chosen: int | None = None
        self._completed: str | None = None
        """The line after the last completion, which is not completed again."""

    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def compose(self) -> ComposeResult:
        with Vertical(id="command-box"):
            yield Static("", id="candidates")
            yield CommandInput(self._text, _HINT, id="command", select_on_focus=False)
        yield KeyLine()

    def on_mount(self) -> None:
        self._names = KnownNames(lambda: self.dashboard.make_client(read_only=True))
        self._look()

    @property
    def _reach(self) -> list[str] | None:
        reach = self.dashboard.settings.reach
        return None if reach is None else reach.words

    @property
    def _input(self) -> Input:
        return self.query_one("#command", Input)

    # --- completion --------------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value != self._completed:
            self._look()

    def _look(self) -> None:
        self._completed, self._chosen = None, None
        look = partial(self._complete, self._input.value)
        work: Callable[[], Awaitable[None]] = partial(until_closed, self, look)
        self.run_worker(work, group=_COMPLETION, exclusive=True)  # no coroutine: fast typing begins few

    async def _complete(self, text: str) -> None:
        found = await asyncio.to_thread(offered, text, self._names)
        if text != self._input.value:  # more was typed meanwhile
            return
        self._offer = found
        self._before_completion = text
        self._show()

    def action_complete(self, step: int) -> None:
        """Puts the next candidate into the line. A single candidate counts as typed."""
        candidates = self._offer.candidates
        if not candidates:
            return
        at = -1 if self._chosen is None and step > 0 else self._chosen or 0
        self._chosen = (at + step) % len(candidates)
        chosen = candidates[self._chosen]
        text = self._before_completion[: self._offer.start] + chosen.text + chosen.behind
        self._completed = None if len(candidates) == 1 else text
        self._input.value = text
        self._input.cursor_position = len(text)
        self._show()

    def _show(self) -> None:
        """Shows some candidates with their descriptions, including the chosen one."""
        candidates, chosen = self._offer.candidates, self._chosen
        first = max(0, (chosen or 0) - SHOWN_MAX + 1)
        lines = []
        for at, one in enumerate(candidates[first : first + SHOWN_MAX], first):
            mark, style = ("›", "bold") if at == chosen else (" ", "")
            lines.append(
                Content.assemble(literal(f"{mark} {one.text:{_NAME_WIDTH}} ", style), literal(one.told, "$text-muted"))
            )
        more = len(candidates) - first - SHOWN_MAX
        if more > 0:
            lines.append(literal(f"  {more:,} more", "$text-muted"))
        self._tell(Content("\n").join(lines))

    def _tell(self, content: Content) -> None:
        self.query_one("#candidates", Static).update(content)

    # --- typed lines -------------------------------------------------------------------------------------------------

    def action_before(self, step: int) -> None:
        """Shows an earlier line, or the empty line after the last one."""
        self._at = max(0, min(self._at + step, len(self._lines_before)))
        text = self._lines_before[self._at] if self._at < len(self._lines_before) else ""
        self._input.value = text
        self._input.cursor_position = len(text)

    def action_copy_line(self) -> None:
        """Copies the line as it would be typed into a shell."""
        try:
            asked = understand(self._input.value, self._reach)
        except UsageError as error:
            self._refuse(error)
            return
        line = asked.line if isinstance(asked, CommandAsked) else self._input.value
        self.app.copy_to_clipboard(line)
        self.dashboard.say(f"copied {line}")

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            asked = understand(event.value, self._reach)
            if isinstance(asked, PlaceAsked) and asked.name:
                asked = await self._known_place(asked)
        except UsageError as error:
            self._refuse(error)
            return
        if event.value not in self._lines_before[-1:]:
            self._lines_before.append(event.value)
        self.dismiss(asked)

    async def _known_place(self, asked: PlaceAsked) -> PlaceAsked:
        """Returns ``asked`` if its name exists or cannot be checked. UsageError otherwise, because an empty screen
        would look like an answer."""
        kind = PLACES[asked.word].names
        assert kind is not None
        names = await asyncio.to_thread(self._names.of, kind, LineSoFar())
        if names and asked.name not in names and (asked.word, asked.name) != ("ctx", PREVIOUS):
            raise UsageError(f"there is no {kind} {asked.name}", hint=did_you_mean(asked.name, names))
        return asked

    def _refuse(self, error: UsageError) -> None:
        self.workers.cancel_group(self, _COMPLETION)  # it would overwrite this text
        self._tell(literal(f"{error}. {error.hint or ''}".strip(), "$text-error"))

    def action_give_up(self) -> None:
        self.dismiss(None)
