"""A dialog over a dimmed screen, and the simplest ones: a question with one line to type, and every key that works
now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, cast

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.core.terminal_text import display_width, padded
from rmqadmin.tui.dashboard import Dashboard
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import begin, close, until_closed
from rmqadmin.tui.widgets.detail import LongLines
from rmqadmin.tui.widgets.frame import SIZE_MIN, KeyLine, TooSmall
from rmqadmin.tui.widgets.inputs import CompactInput, enter

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
        yield KeyLine()
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
            begin(self, until_closed, self, self._answer, text, group="take", exclusive=True)

    async def _answer(self, text: str) -> None:
        problem = await asyncio.shield(self._take(text))
        if problem is None:
            close(self)
        else:
            self.say(problem, "$text-error")


_NEVER_USED = ("scroll_left", "scroll_right", "page_left", "page_right", "cursor_left", "cursor_right")
"""Textual binds these for all that scrolls, but no table here is wider than the terminal, and its cursor is a row."""

_OUR_WORDS = {"Focus Next": "Next part", "Focus Previous": "Part before", "palette": "Palette"}
_OUR_WORDS |= {"Copy selected text": "Copy selected text"}
"""Textual's actions in this project's words. They are listed last."""

_PLACES = ("on this screen", "where the cursor is", "everywhere")


class KeysScreen(Dialog):
    """Every key that works now, in as many columns as fit, scrolled if that is not enough. ``?``, ``q`` and Escape
    close it. Textual's own panel of keys is 30 columns wide at 80 x 24, and no key scrolls it: half were hidden."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,q", "close", "Close", show=False)]

    def __init__(self, below: Screen[object]):
        super().__init__("Keys")
        self._keys = keys_of(below)

    def parts(self) -> Iterable[Widget]:
        yield KeyLines(self._keys)


class KeyLines(LongLines):
    """``keys``: as ``keys_of`` gives them."""

    def __init__(self, keys: Mapping[str, Mapping[str, Sequence[str]]]):
        super().__init__(id="keys")
        self._keys = keys

    def on_resize(self) -> None:
        shown = [(" ".join(keys), does) for found in self._keys.values() for does, keys in found.items()]
        key_width = max((display_width(keys) for keys, _ in shown), default=0)
        least_width = key_width + 3 + max((display_width(does) for _, does in shown), default=0)
        columns = max(1, self.scrollable_content_region.width // least_width)
        width, lines = self.scrollable_content_region.width // columns, list[Content]()
        for place, found in self._keys.items():
            cells = [
                Content.assemble(
                    (" ".join(keys).rjust(key_width), "bold $text-accent"), " ", padded(does, width - key_width - 1)
                )
                for does, keys in found.items()
            ]
            rows = [Content("").join(cells[at : at + columns]) for at in range(0, len(cells), columns)]
            lines += [*([Content("")] if lines else []), Content.styled(place, "$text-muted"), *rows]
        self.show(lines)
        self.call_after_refresh(self.focus)  # not before it has something to scroll


def keys_of(screen: Screen[object]) -> dict[str, dict[str, list[str]]]:
    """The keys that work on a screen now, by the part that handles them and by what they do."""
    found: dict[str, dict[str, list[str]]] = {place: {} for place in _PLACES}
    active_bindings = [each for each in screen.active_bindings.values() if not each.binding.system]
    for where, active, *_ in sorted(active_bindings, key=lambda each: each.binding.description in _OUR_WORDS):
        if active.description and active.action not in _NEVER_USED:
            keys = found[_place(where)].setdefault(_OUR_WORDS.get(active.description, active.description), [])
            if (key := screen.app.get_key_display(active)) not in keys:
                keys.append(key)
    return found


def _place(node: DOMNode) -> str:
    if isinstance(node, App):
        return _PLACES[2]
    return _PLACES[0] if isinstance(node, Screen) else _PLACES[1]
