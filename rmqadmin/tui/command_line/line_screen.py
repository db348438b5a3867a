"""The line that ``:`` opens over the screen below, with the names that may follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from rmqadmin.cli.prompt.candidates import LineSoFar
from rmqadmin.cli.prompt.live_names import WAIT_S, OnceAsked, read_names
from rmqadmin.core.contexts.context_store import PREVIOUS, ContextStore
from rmqadmin.core.names import did_you_mean
from rmqadmin.core.servers.broker_state import replicas_of
from rmqadmin.tui.command_line.places import BROKER_NAMES, FILE_NAMES, PLACES, PlaceAsked, broker_names, understand
from rmqadmin.tui.dashboard import Dashboard
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.dialog import PICTURE_KEY
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import begin, close, until_closed, while_open
from rmqadmin.tui.widgets.frame import KeyLine
from rmqadmin.tui.widgets.inputs import CompactInput, enter
from rmqproto.errors import UsageError

_LINES_LEFT = 10
"""How many lines of the screen below stay in view."""
_WORD_WIDTH = 30
_HINT = "topics, group NAME, save FILE"


class KnownNames:
    """Names of the cluster, asked for once; none if the servers do not answer. It blocks."""

    def __init__(self, make_client: Callable[[], DashboardClient]):
        self._make_client = make_client
        self._asked = OnceAsked()

    def of(self, kind: str) -> list[str]:
        if kind == FILE_NAMES:
            return []
        if kind == "context":
            return ContextStore().names()
        return self._asked.of((kind,), lambda: self._read(kind)) or []

    def _read(self, kind: str) -> list[str]:
        with self._make_client() as client:
            client.begin(WAIT_S)
            if kind != BROKER_NAMES:
                return read_names(client, kind, LineSoFar())
            found = replicas_of(client.cluster_info(), None)
        return sorted({name for one in found for name in broker_names(one)})


def offered(text: str, names: KnownNames) -> list[tuple[str, str]]:
    """Whole lines that begin with ``text``, and what is told beside each. Blocks. Names of the system are offered only
    after ``%``."""
    word, blank, begun = text.partition(" ")
    if not blank:
        found = [(f"{each} " if place.names else each, place.help) for each, place in PLACES.items()]
        return [(line, told) for line, told in found if line.startswith(word.lower())]
    place = PLACES.get(word.lower())
    known = [] if place is None or place.names is None else names.of(place.names)
    return [
        (f"{word} {name}", "")
        for name in known
        if name.lower().startswith(begun.lower()) and (begun.startswith("%") or not name.startswith("%"))
    ]


class PlaceSuggester(Suggester):
    """Suggests the first of the offered lines, and has ``show`` show them all."""

    def __init__(self, names: KnownNames, show: Callable[[str, list[tuple[str, str]]], None]):
        super().__init__(use_cache=False, case_sensitive=True)
        self._names, self._show = names, show

    async def get_suggestion(self, value: str) -> str | None:
        found = await asyncio.to_thread(offered, value, self._names)
        self._show(value, found)
        return next((line for line, _ in found if line.startswith(value)), None)


class CommandInput(CompactInput):
    BINDINGS: ClassVar[list[BindingType]] = [
        enter("Go"),
        Binding("tab", "cursor_right", "Complete"),  # Textual's way to take the suggestion
    ]


class CommandLineScreen(ModalScreen[PlaceAsked | None]):
    """Returns the place that was asked for, or None."""

    AUTO_FOCUS = "#command"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Close"), PICTURE_KEY]

    def __init__(self, text: str):
        super().__init__()
        self._text = text
        self._names = KnownNames(lambda: self.dashboard.make_client(read_only=True))

    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def compose(self) -> ComposeResult:
        suggester = PlaceSuggester(self._names, self._show)
        with Vertical(id="command-box"):
            yield Static("", id="candidates")
            yield CommandInput(self._text, _HINT, id="command", select_on_focus=False, suggester=suggester)
        yield KeyLine()

    def _show(self, text: str, found: list[tuple[str, str]]) -> None:
        """Shows what is offered for ``text``, unless more was typed meanwhile."""
        with while_open(self):
            if text == self.query_one(Input).value:
                shown_max = max(1, self.app.size.height - _LINES_LEFT)
                lines = [
                    Content.assemble(literal(f"{line:{_WORD_WIDTH}} "), literal(told, "$text-muted"))
                    for line, told in found[:shown_max]
                ]
                more = [literal(f"{len(found) - shown_max:,} more", "$text-muted")] if len(found) > shown_max else []
                self._tell(Content("\n").join([*lines, *more]))

    def _tell(self, content: Content) -> None:
        self.query_one("#candidates", Static).update(content)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        begin(self, until_closed, self, self._go, event.value, group="go", exclusive=True)

    async def _go(self, text: str) -> None:
        try:
            asked = understand(text)
            if asked.name:
                await self._check_name(asked)
        except UsageError as error:
            self._tell(literal(f"{error}. {error.hint or ''}".strip(), "$text-error"))
        else:
            close(self, asked)

    async def _check_name(self, asked: PlaceAsked) -> None:
        """UsageError for a name that does not exist, because an empty screen would look like an answer. One that cannot
        be checked passes."""
        kind = PLACES[asked.word].names
        assert kind is not None
        names = await asyncio.to_thread(self._names.of, kind)
        if names and asked.name not in names and (asked.word, asked.name) != ("ctx", PREVIOUS):
            raise UsageError(f"there is no {kind} {asked.name}", hint=did_you_mean(asked.name, names))

    def action_give_up(self) -> None:
        self.dismiss(None)
