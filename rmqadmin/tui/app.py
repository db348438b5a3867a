"""The dashboard as a Textual app: the nouns and their keys, the way down and back, the interval, and what works on
every screen (a picture). Each screen has its own file.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from textual import events
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen
from textual.theme import ThemeProvider
from textual.widgets import Input

from rmqadmin.core.contexts.context_store import PREVIOUS
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import moment
from rmqadmin.tui.contrast import readable
from rmqadmin.tui.dialogs.dialog import PICTURE_KEY
from rmqadmin.tui.garbage import LOOK_S, Garbage
from rmqadmin.tui.key_map import KEYS, bound, keymap, unknown_names
from rmqadmin.tui.refresh import INTERVALS_S
from rmqadmin.tui.remembered import read_or_set_aside, remember, remembered_path
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.wide_keys import as_narrow
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.notifications import SeverityLevel

    from rmqadmin.core.health.finding import Subject
    from rmqadmin.tui.command_line.places import PlaceAsked
    from rmqadmin.tui.dashboard import Thing
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.recording.replay import Replay
    from rmqadmin.tui.sampler import Sampler
    from rmqadmin.tui.screens.over_time import ReadRow

_NOUNS = {
    "pulse": ("rmqadmin.tui.screens.pulse", "PulseScreen"),
    "topics": ("rmqadmin.tui.screens.topics", "TopicsScreen"),
    "groups": ("rmqadmin.tui.screens.groups", "GroupsScreen"),
    "letters": ("rmqadmin.tui.screens.dead_letters", "DeadLettersScreen"),
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

AWAY_AFTER_MS = 30_000
"""After this long without a key or a click, the user counts as away."""

_SERVER_LOOKED_FOR_S = 2.0

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


class DashboardApp(App[None]):
    """One mode per noun. Each mode keeps its own screen stack, so going to another noun and back loses nothing."""

    TITLE = "rmqadmin"
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
        bound("quit"),
    ]
    interval_s: reactive[float] = reactive(2.0, init=False)
    shows_system: reactive[bool] = reactive(False, init=False)
    """Whether lists also show what belongs to RocketMQ itself."""

    def __init__(self, settings: DashboardSettings, replay: Replay | None = None):
        """``replay``: a recording to show instead of servers. The client and the clock of the settings are then the
        recording's."""
        super().__init__()
        self._replay = replay
        self.settings = settings
        self.read_only = settings.read_only
        remembered, damage = read_or_set_aside()
        self.set_reactive(DashboardApp.interval_s, settings.interval_s)
        self.set_reactive(DashboardApp.shows_system, remembered.shows_system)
        self._problems = [*([damage] if damage else []), *self._find_theme(remembered.theme)]
        self._wanted_theme = remembered.theme or self.theme
        self.set_keymap(keymap(settings.keys))
        self._problems += unknown_names(settings.keys)
        self.client_loaded = asyncio.Event()
        self._memory: ClusterMemory | None = None
        self._told_of_recording = False
        self._context_lock = asyncio.Lock()
        self._settings_before: DashboardSettings | None = None
        """Of the context that was shown before this one."""
        self.sampler: Sampler | None = None
        self._touched_ms = self._away_since_ms = self.now_ms()
        self._is_ready = self._is_to_leave = False
        self.last_undo: Callable[[], ModalScreen[None]] | None = None
        self._garbage = Garbage()

    _first_noun = staticmethod(_opener(*_NOUNS[_FIRST_NOUN]))

    def on_ready(self) -> None:
        self._is_ready = True
        if self._is_to_leave:
            self.exit()
        self.screen.call_after_refresh(lambda: self.run_worker(self._load()))

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        variables.update(readable(variables))
        return variables

    def _find_theme(self, wanted: str | None) -> list[str]:
        """Puts on the theme that was chosen last, or the default one. Returns what is wrong with the themes. The style
        sheet has not been read at this point."""
        from rmqadmin.tui.themes import DARK, LIGHT, read_themes, themes_dir

        themes, problems = read_themes(themes_dir())
        for theme in (DARK, LIGHT, *themes):
            self.register_theme(theme)
        self.set_reactive(App.theme, DARK.name)
        if wanted in self.available_themes:
            self.set_reactive(App.theme, wanted)
        elif wanted is not None:
            problems.append(f"the theme {wanted} no longer exists")
        return problems

    def get_default_screen(self) -> Screen[Any]:
        """The first noun, which Textual opens as the only screen of a program without modes. As a mode, from Python
        3.12 on, it would be composed before it is on its stack, and an input in it would end the program (Textual issue
        6444). Opened later, it would follow another screen and be drawn twice."""
        return self._first_noun()

    def on_mount(self) -> None:
        self.add_mode(_FIRST_NOUN, self._first_noun)  # from now on it is like the others
        self.theme_changed_signal.subscribe(self, lambda theme: self._keep_theme(theme.name))
        for problem in self._problems:
            self.say(problem, is_error=True)
        self._garbage.begin()
        self.set_interval(LOOK_S, self._garbage.look)
        if self.is_web:
            server = os.getppid()
            self.set_interval(_SERVER_LOOKED_FOR_S, lambda: self._end_without(server))

    def on_unmount(self) -> None:
        self._garbage.end()

    def _end_without(self, server: int) -> None:
        """Ends the dashboard of a page when the web server has ended, even if that was killed."""
        if os.getppid() != server:
            os._exit(1)  # nobody is left to see or hear anything

    async def _load(self) -> None:
        """Loads in a thread what the first frame does not need: client and sampler (70 ms), then all other screens, so
        that they open at once."""
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
            self.run_worker(feed.run(), group=_SAMPLER, exit_on_error=False)
        while self._problems:  # a notification is gone after seconds
            self.sampler.pulse.log.add(self.now_ms(), None, self._problems.pop(0), Mark.WARN)
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
            self.run_worker(self._move_replay(moves[where]), exit_on_error=False)

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

    # --- input -------------------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not isinstance(self.focused, Input):
            event = as_narrow(event)
        if isinstance(event, events.Key | events.MouseDown | events.MouseScrollDown | events.MouseScrollUp):
            self._away_since_ms, self._touched_ms = self.away_since_ms, self.now_ms()
            self._garbage.touched()
        await super().on_event(event)

    @property
    def away_since_ms(self) -> int:
        """When the user's current absence began, or the last one if the user is back. Before any absence, when the
        dashboard was started."""
        return self._touched_ms if self.now_ms() - self._touched_ms > AWAY_AFTER_MS else self._away_since_ms

    # --- servers and clock -------------------------------------------------------------------------------------------

    def make_client(self, *, read_only: bool) -> DashboardClient:
        """A new client. In a read-only dashboard it is always read-only."""
        return self.settings.make_client(read_only=read_only or self.read_only)

    @property
    def memory(self) -> ClusterMemory:
        """What all screens remember of the cluster. Made when the client is loaded."""
        if self._memory is None:
            from rmqadmin.tui.memory.cluster import ClusterMemory

            self._memory = ClusterMemory(self.now_ms)
        return self._memory

    def now_ms(self) -> int:
        return self.settings.now_ms()

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
        from rmqadmin.tui.screens.things import tabs_of

        self.push_screen(tabs_of(thing).open(tab))

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
        """Keys of nouns do not work in a dialog, which has its own keys. Those that open another screen have priority,
        so that a key behind them goes to that screen; in a line, they are text."""
        if action == "replay":
            return self._replay is not None and isinstance(self.screen, DashboardScreen)
        if action in ("go", "command_line") and isinstance(self.focused, Input):
            return False
        if action == "undo" and (self.last_undo is None or self.read_only):
            return False
        if action in ("go", "interval", "system", "command_line", "undo"):
            return isinstance(self.screen, DashboardScreen)
        return True

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_interval(self, steps: int) -> None:
        nearest = min(range(len(INTERVALS_S)), key=lambda at: abs(INTERVALS_S[at] - self.interval_s))
        self.interval_s = INTERVALS_S[max(0, min(nearest + steps, len(INTERVALS_S) - 1))]

    def watch_interval_s(self) -> None:
        self._keep_value("interval_s", self.interval_s)
        if isinstance(self.screen, DashboardScreen):
            self.screen.action_refresh_now()
            self.screen.show_frame()

    def action_system(self) -> None:
        self.shows_system = not self.shows_system

    def watch_shows_system(self) -> None:
        self._keep_value("shows_system", self.shows_system)
        if isinstance(self.screen, DashboardScreen):
            self.screen.hide_system()

    def action_keys(self) -> None:
        """Shows every key of the focused widget and its screen."""
        from rmqadmin.tui.dialogs.keys import KeysScreen

        self.push_screen(KeysScreen(self.screen))

    async def action_command_line(self, text: str = "") -> None:
        from rmqadmin.tui.command_line.line_screen import CommandLineScreen

        await self.push_screen(CommandLineScreen(text), self._place_asked)

    def open_command_line(self, text: str) -> None:
        self.call_later(self.action_command_line, text)

    def _place_asked(self, asked: PlaceAsked | None) -> None:
        from rmqadmin.tui.command_line.places import open_place

        if asked is not None:
            self.run_worker(open_place(self, asked))

    def action_undo(self) -> None:
        if self.last_undo is not None and isinstance(self.screen, DashboardScreen):
            self.screen.open_change(self.last_undo())

    # --- what is remembered ------------------------------------------------------------------------------------------

    def keep(self, remember: Callable[[], None]) -> None:
        self.run_worker(self._keep(remember), group="remember", exit_on_error=False)

    async def _keep(self, remember: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(remember)
        except OSError as error:
            self.say(f"{remembered_path()}: {error.strerror}", is_error=True)

    def _keep_theme(self, name: str) -> None:
        if name != self._wanted_theme:  # the signal also comes for the initial theme
            self._wanted_theme = name
            self._keep_value("theme", name)

    def _keep_value(self, name: str, value: object) -> None:
        """Saves a field of ``Remembered``."""
        self.keep(lambda: remember(lambda remembered: setattr(remembered, name, value)))

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
        from rmqadmin.tui.dialogs.dialog import LineDialog

        async def unlock(text: str) -> str | None:
            if text != locked_by:
                return "it stays locked: that is not its name"
            self.set_read_only(False)
            return None

        about = f"Type {locked_by} to go on. :lock forbids them again."
        self.push_screen(LineDialog(f"Permit changes in {locked_by}", about, unlock))

    def set_read_only(self, read_only: bool) -> None:
        self.read_only = read_only
        for screen in self.screen_stack:
            if isinstance(screen, DashboardScreen):
                screen.show_frame()
        self.refresh_bindings()

    def leave(self) -> None:
        """Ends the dashboard, from any thread. While it starts: as soon as it has started, as Textual fails if it is
        ended before its first frame."""
        self._is_to_leave = True
        if self._is_ready:
            self.exit()

    def action_save_picture(self) -> None:
        """Saves a picture in the current directory; in a browser, among its downloads."""
        from rmqadmin.tui.picture import picture_name, picture_of, save_picture

        if self.is_web:
            name = f"{picture_name(self)}.svg"
            self.deliver_text(io.StringIO(picture_of(self)), save_filename=name, mime_type="image/svg+xml")
        else:
            try:
                self.say(f"saved {save_picture(self, Path.cwd())}")
            except OSError as error:
                self.say(f"the picture was not saved: {Path.cwd()}: {error.strerror or error}", is_error=True)

    def action_command_palette(self) -> None:
        from rmqadmin.tui.command_line.palette import Palette

        if not isinstance(self.screen, Palette):
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

    # --- notifications -----------------------------------------------------------------------------------------------

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Shows a notification. ``text`` may come from a broker: it is never parsed as markup."""
        self.notify(printable(text), severity="error" if is_error else "information", markup=False)
