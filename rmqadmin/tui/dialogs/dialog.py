"""A dialog over a dimmed screen, and the simplest one: a question with one line to type."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import close, until_closed
from rmqadmin.tui.widgets.compact_input import CompactInput, enter
from rmqadmin.tui.widgets.frame import SIZE_MIN, TooSmall

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard


PICTURE_KEY = bound("picture", "app.save_picture")
"""A key of the app and of each dialog, because the app's own keys do not work under a dialog."""


class NameInput(CompactInput):
    """The line on which Enter does it."""

    BINDINGS: ClassVar[list[BindingType]] = [enter("Do it")]


class Dialog(ModalScreen[None]):
    """A box with a title, a text in muted colour, and ``parts``."""

    DEFAULT_CLASSES = "dialog"
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (SIZE_MIN[0], "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (SIZE_MIN[1], "-low"), (34, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close"), PICTURE_KEY]

    def __init__(self, title: str, about: str = ""):
        super().__init__()
        self._title, self._about = title, about

    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def parts(self) -> Iterable[Widget]:
        """The parts below the text. One is a Static of the id ``said``, if anything is to be said."""
        return ()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog--box"):
            yield Static(literal(self._title), classes="dialog--title")
            if self._about:
                yield Static(literal(self._about), classes="label")
            yield from self.parts()
        yield Footer(compact=True, show_command_palette=False)
        yield TooSmall()

    def say(self, text: str, style: str = "") -> None:
        """Tells how it stands, in lines. ``text`` may come from a broker."""
        lines = [literal(line, style) for line in text.split("\n")]
        self.query_one("#said", Static).update(Content("\n").join(lines))

    def action_close(self) -> None:
        self.dismiss()


class LineDialog(Dialog):
    """Asks for one line. ``take`` returns why it was not taken; None closes the dialog."""

    AUTO_FOCUS = "#name"

    def __init__(self, title: str, about: str, take: Callable[[str], Awaitable[str | None]], text: str = ""):
        super().__init__(title, about)
        self._take, self._text = take, text

    def parts(self) -> Iterable[Widget]:
        yield NameInput(self._text, id="name", select_on_focus=False)
        yield Static(id="said")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if text := event.value.strip():
            self.run_worker(until_closed(self, lambda: self._answer(text)), group="take", exclusive=True)

    async def _answer(self, text: str) -> None:
        problem = await asyncio.shield(self._take(text))
        if problem is None:
            close(self)
        else:
            self.say(problem, "$text-error")
