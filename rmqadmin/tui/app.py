"""What the dashboard shows: the nouns and their keys, the way down and back, one context after another, or a recording.
Each screen has its own file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import ModalScreen, Screen
from textual.theme import ThemeProvider
from textual.widgets import Input

from rmqadmin.core.contexts.context_store import PREVIOUS
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import moment
from rmqadmin.tui.app_base import BaseApp
from rmqadmin.tui.dialogs.dialog import PICTURE_KEY, KeysScreen, LineDialog
from rmqadmin.tui.key_map import KEYS, bound
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.until_closed import begin
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.notifications import SeverityLevel

    from rmqadmin.core.health.finding import Subject
    from rmqadmin.tui.command_line.places import PlaceAsked
    from rmqadmin.tui.dashboard import Thing
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.memory.pulse_memory import PulseMemory
    from rmqadmin.tui.recording.replay import Replay
    from rmqadmin.tui.sampler import Sampler
    from rmqadmin.tui.screens.over_time import ReadRow

_NOUNS = {
    "pulse": ("rmqadmin.tui.screens.pulse", "PulseScreen"),
    "topics": ("rmqadmin.tui.screens.topics", "TopicsScreen"),
    "groups": ("rmqadmin.tui.screens.groups", "GroupsScreen"),
    "letters": ("rmqadmin.tui.screens.messages", "DeadLettersScreen"),
    "brokers": ("rmqadmin.tui.screens.brokers", "BrokersScreen"),
    "search": ("rmqadmin.tui.screens.search", "SearchScreen"),
}
"""By mode, which is also the name of its key: the module and class of its first screen."""

_FIRST_NOUN = "pulse"
_BETWEEN = "between two contexts"

_SAMPLER = "sampler"

_MODULES_FIRST = ("rmqadmin.tui.dashboard_client", "rmqadmin.tui.sampler")

_PACKAGES_LATE = ("rmqadmin.tui.screens", "rmqadmin.tui.dialogs", "rmqadmin.tui.command_line")
"""What a key may open is in their modules."""

_SEVERITIES: dict[Mark, SeverityLevel] = {
    Mark.BAD: "error", Mark.WARN: "warning", Mark.GOOD: "information",
}  # fmt: skip

_NOT_OFFERED = ("Screenshot", "Keys", "Maximize", "Minimize")
"""Textual commands to leave out: the dashboard has its own of the first two, and tables already have all the room there
is."""


def _opener(module: str, name: str) -> Callable[[], Screen[Any]]:
    def open_screen() -> Screen[Any]:
        made: Screen[Any] = getattr(import_module(module), name)()
        return made

    return open_screen


def _row_commands() -> type[Provider]:
    from rmqadmin.tui.command_line.palette import RowCommands  # when the palette is opened for the first time

    return RowCommands


def _modules_late() -> Iterator[str]:
    for package in _PACKAGES_LATE:
        yield from (f"{package}.{found.name}" for found in iter_modules(import_module(package).__path__))


def _load_modules(names: Iterable[str]) -> None:
    for module in names:
        import_module(module)


class DashboardApp(BaseApp):
    """One mode per noun. Each mode keeps its own screen stack, so going to another noun and back loses nothing."""

    CSS_PATH = ["style.tcss", "screens.tcss", "dialogs.tcss"]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = App.COMMANDS | {_row_commands}
    DEFAULT_MODE = _FIRST_NOUN
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        mode: _opener(module, name) for mode, (module, name) in _NOUNS.items() if mode != _FIRST_NOUN
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *(bound(mode, f"go('{mode}')", priority=True) for mode in _NOUNS),
        bound("faster", "interval(-1)"),
        bound("slower", "interval(1)"),
        bound("place", "command_line", priority=True),
        bound("undo"),
        PICTURE_KEY,
        *(bound(f"replay_{move}", f"replay('{move}')") for move in ("next", "previous", "minute_on", "minute_back")),
        bound("suspend"),
        bound("quit"),
    ]

    def __init__(self, settings: DashboardSettings, replay: Replay | None = None):
        """``replay``: a recording to show instead of servers. The client and the clock of the settings are then the
        recording's."""
        super().__init__(settings)
        self._replay = replay
        self.client_loaded = asyncio.Event()
        self._memory: ClusterMemory | None = None
        self._told_of_recording = False
        self._context_lock = asyncio.Lock()
        self._settings_before: DashboardSettings | None = None
        """Of the context that was shown before this one."""
        self.sampler: Sampler | None = None
        self.last_undo: Callable[[], ModalScreen[None]] | None = None

    _first_noun = staticmethod(_opener(*_NOUNS[_FIRST_NOUN]))

    def on_ready(self) -> None:
        self.screen.call_after_refresh(lambda: begin(self, self._load))

    def get_default_screen(self) -> Screen[Any]:
        """The first noun, which Textual opens as the only screen of a program without modes. As a mode, from Python
        3.12 on, it would be composed before it is on its stack, and an input in it would end the program (Textual issue
        6444). Opened later, it would follow another screen and be drawn twice."""
        return self._first_noun()

    def on_mount(self) -> None:
        self.add_mode(_FIRST_NOUN, self._first_noun)  # from now on it is like the others

    async def _load(self) -> None:
        """Loads in a thread what the first frame does not need: client and sampler, then all other screens, so that
        they open at once."""
        await asyncio.to_thread(_load_modules, _MODULES_FIRST)
        if self._replay is None:
            self.client_loaded.set()
            self._start_sampler()
        else:
            await self._move_replay(lambda replay: replay.go_to(0))
            self.client_loaded.set()
        await asyncio.to_thread(_load_modules, _modules_late())

    def _start_sampler(self) -> None:
        from rmqadmin.tui.sampler import Sampler

        self.sampler = Sampler(
            self.make_client, self.memory, self.now_ms, lambda: self.interval_s, self._sampled, self.settings.alerts,
            self.settings.recording,
        )  # fmt: skip
        for feed in self.sampler.feeds:
            begin(self, feed.run, group=_SAMPLER, exit_on_error=False)
        while self.problems:  # a notification is gone after seconds
            self.sampler.pulse.log.add(self.now_ms(), None, self.problems.pop(0), Mark.WARN)
        if isinstance(self.screen, DashboardScreen):
            self.screen.sampler_started()

    # --- a recording -------------------------------------------------------------------------------------------------

    async def _move_replay(self, move: Callable[[Replay], None]) -> None:
        """Screens have no samples during the move. They then read the new step."""
        replay = self._replay
        assert replay is not None
        before, self.sampler = self.sampler, None
        try:
            await asyncio.to_thread(move, replay)
        except UsageError as error:
            self.say(str(error), is_error=True)
        self.sampler, self._memory = replay.sampler, replay.memory
        if replay.sampler is not before:
            replay.sampler.pulse.alerts.take_news()  # going back a step makes no news
        self._sampled()
        if isinstance(self.screen, DashboardScreen):
            self.screen.action_refresh_now()
            self.screen.show_frame()

    def action_replay(self, where: str) -> None:
        moves: dict[str, Callable[[Replay], None]] = {
            "next": lambda replay: replay.go_to(replay.position + 1),
            "previous": lambda replay: replay.go_to(replay.position - 1),
            "minute_on": lambda replay: replay.go_for(60_000),
            "minute_back": lambda replay: replay.go_for(-60_000),
        }
        if self.sampler is not None:  # a key during a move is ignored
            begin(self, self._move_replay, moves[where], exit_on_error=False)

    @property
    def replay_text(self) -> str:
        replay = self._replay
        return "" if replay is None else f"{moment(replay.now_ms())}, {replay.text()}"

    def _sampled(self) -> None:
        recording = self.settings.recording
        if recording is not None and recording.error is not None and not self._told_of_recording:
            self._told_of_recording = True
            self.say(recording.error, is_error=True)
        for news in self.sampler.pulse.alerts.take_news() if self.sampler is not None else ():
            severity = _SEVERITIES[news.mark]
            self.notify(printable(news.text), title=printable(news.subject.name), severity=severity, markup=False)
            if news.rings:
                self.bell()
        if isinstance(self.screen, DashboardScreen):
            self.screen.show_places()
            self.screen.sampled()

    # --- servers and clock -------------------------------------------------------------------------------------------

    @property
    def memory(self) -> ClusterMemory:
        """What all screens remember of the cluster. Made when the client is loaded."""
        if self._memory is None:
            from rmqadmin.tui.memory.cluster import ClusterMemory

            self._memory = ClusterMemory(self.now_ms)
        return self._memory

    @property
    def pulse(self) -> PulseMemory:
        """What the sampler has found; nothing while there is none."""
        from rmqadmin.tui.memory.pulse_memory import PulseMemory

        return PulseMemory(self.now_ms) if self.sampler is None else self.sampler.pulse

    async def open_context(self, name: str) -> None:
        """Shows the servers of another context, beginning at the first screen. ``-`` is the context before this one.
        Interval and keys stay. RocketMQError if the context cannot be used; then nothing changes. Must not be called
        while a dialog is open: its question would be lost."""
        async with self._context_lock:
            assert self.settings.open_context is not None
            if name != PREVIOUS:
                opened = await asyncio.to_thread(self.settings.open_context, name)
            elif self._settings_before is not None:
                opened = self._settings_before
            else:
                raise UsageError("no other context was shown before")
            self.workers.cancel_group(self, _SAMPLER)
            self.sampler = None
            self.add_mode(_BETWEEN, Screen)  # the mode that is shown cannot be removed
            await self.switch_mode(_BETWEEN)
            for mode in _NOUNS:
                await self.remove_mode(mode)
            # All screens are closed now. One that was still open would read its servers into the new memory.
            self._settings_before = self.settings
            self.settings = msgspec.structs.replace(opened, alerts=self.settings.alerts)
            self.read_only, self._memory, self.last_undo = self.settings.read_only, None, None
            for mode, (module, screen) in _NOUNS.items():
                self.add_mode(mode, _opener(module, screen))
            await self.switch_mode(_FIRST_NOUN)
            await self.remove_mode(_BETWEEN)
            self._start_sampler()

    # --- navigation --------------------------------------------------------------------------------------------------

    @property
    def places(self) -> dict[str, tuple[str, str]]:
        """Key and name of each place, by its mode."""
        return {mode: (KEYS[mode].keys, KEYS[mode].word) for mode in _NOUNS}

    @property
    def way(self) -> list[str]:
        """The steps from the noun to the top screen."""
        return [screen.step for screen in self.screen_stack if isinstance(screen, DashboardScreen)]

    async def action_go(self, mode: str) -> None:
        """Goes to a noun. Inside that noun, goes to its first screen."""
        if mode == self.current_mode:
            while len(self.screen_stack) > 1:
                await self.pop_screen()
        else:
            await self.switch_mode(mode)
        if isinstance(self.screen, DashboardScreen):
            self.screen.opened_by_key()

    def action_help_quit(self) -> None:
        """Ctrl-C, which a terminal may send by mistake, ends nothing; the name is Textual's."""
        self.say("q quits" if isinstance(self.screen, DashboardScreen) else "esc closes this; then q quits")

    def open_thing(self, thing: Thing, tab: int = 1) -> None:
        from rmqadmin.tui.screens.things import screen_of

        self.push_screen(screen_of(thing, tab))

    def plot(self, subject: Subject, read: ReadRow | None) -> None:
        from rmqadmin.tui.screens.over_time import OverTimeScreen

        self.push_screen(OverTimeScreen(subject, read))

    async def go_into(self, mode: str, screen: Screen[None] | None) -> None:
        if mode != self.current_mode:
            await self.switch_mode(mode)
        while len(self.screen_stack) > 1:
            await self.pop_screen()
        if screen is not None:
            await self.push_screen(screen)

    async def go_back(self) -> None:
        if len(self.screen_stack) > 1:
            await self.pop_screen()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of nouns do not work in a dialog, which has its own keys and may have a change running; nor does the
        palette, which leads to places. Those that open another screen have priority, so that a key behind them goes to
        that screen; in a line, they are text."""
        if action == "replay":
            return self._replay is not None and isinstance(self.screen, DashboardScreen)
        if action in ("go", "command_line") and isinstance(self.focused, Input):
            return False
        if action == "undo" and (self.last_undo is None or self.read_only):
            return False
        if action in ("go", "interval", "system", "command_line", "command_palette", "undo"):
            return isinstance(self.screen, DashboardScreen)
        return True

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_keys(self) -> None:
        """Shows every key of the focused widget and its screen."""
        self.push_screen(KeysScreen(self.screen))

    async def action_command_line(self, text: str = "") -> None:
        from rmqadmin.tui.command_line.line_screen import CommandLineScreen

        await self.push_screen(CommandLineScreen(text), self._place_asked)

    def open_command_line(self, text: str) -> None:
        self.call_later(self.action_command_line, text)

    def _place_asked(self, asked: PlaceAsked | None) -> None:
        from rmqadmin.tui.command_line.places import open_place

        if asked is not None:
            begin(self, open_place, self, asked)

    def action_undo(self) -> None:
        if self.last_undo is not None and isinstance(self.screen, DashboardScreen):
            self.screen.open_change(self.last_undo())

    # --- whether anything may be changed -----------------------------------------------------------------------------

    def ask_to_unlock(self) -> None:
        settings = self.settings
        if not self.read_only:
            self.say("nothing is locked")
        elif settings.locked_by is not None:
            self._ask_for_name(settings.locked_by)
        elif settings.read_only:
            self.say("this dashboard was started with --read-only", is_error=True)
        else:
            self.set_read_only(False)

    def _ask_for_name(self, locked_by: str) -> None:
        async def unlock(text: str) -> str | None:
            if text != locked_by:
                return "it stays locked: that is not its name"
            self.set_read_only(False)
            return None

        about = f"Type {locked_by} to go on. :lock forbids them again."
        self.push_screen(LineDialog(f"Permit changes in {locked_by}", about, unlock))

    # --- the palette -------------------------------------------------------------------------------------------------

    def action_command_palette(self) -> None:
        from rmqadmin.tui.command_line.palette import Palette

        self.push_screen(Palette())

    def search_themes(self) -> None:
        from rmqadmin.tui.command_line.palette import Palette

        self.push_screen(Palette([ThemeProvider], placeholder="Search for themes…"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: the nouns, then Textual's commands."""
        for mode, (keys, name) in self.places.items():
            yield SystemCommand(
                name, f"Go to {name.lower()} ({keys})", lambda mode=mode: self.run_action(f"go('{mode}')")
            )
        yield SystemCommand(
            "Save as SVG", "A picture of this screen, in the current directory", self.action_save_picture
        )
        yield SystemCommand("Keys", "All that work here (?)", self.action_keys)
        for command in super().get_system_commands(screen):
            if command.title not in _NOT_OFFERED:
                yield command
