"""The dashboard as a program of its user: theme, interval and what else is remembered, pictures, notices, how long the
user has been away, and its end. What it shows is in ``app.py``."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import App
from textual.reactive import reactive
from textual.widgets import Input

from rmqadmin.core.terminal_text import printable
from rmqadmin.tui.key_map import as_narrow, keymap, unknown_names
from rmqadmin.tui.refresh import INTERVALS_S
from rmqadmin.tui.remembered import read_or_set_aside, remember, remembered_path
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.themes import readable
from rmqadmin.tui.until_closed import begin

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard_client import DashboardClient

AWAY_AFTER_MS = 30_000
"""After this long without a key or a click, the user counts as away."""

COLLECTED_AFTER_S, THAWED_AFTER_S = 1.0, 30.0
"""After this long without a key or a click, garbage is collected: what has come since the last time, which is short
enough for anybody; or all of it, which is not."""

_COLLECTED_EVERY_S = 1.0
_COLLECTIONS_MIN, _COLLECTIONS_MAX = 10, 300
"""So many collections of young garbage come before a full one: the first is Python's own number, the second that for a
user who never rests."""

_SERVER_LOOKED_FOR_S = 2.0


_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich's pictures load a font from a public server, but a picture in a manual should load nothing."""

_FONT = "font-family: Fira Code, monospace;"
_OWN_FONT = "font-family: DejaVu Sans Mono, Menlo, Consolas, monospace;"
"""Fonts that systems have. Both contain every character that tables and sparklines use."""

_PICTURES_MAX = 10_000


def picture_of(app: App[Any]) -> str:
    """The screen as SVG that loads nothing from the network."""
    return _FONT_FACES.sub("", app.export_screenshot(title="rmqadmin tui", simplify=True)).replace(_FONT, _OWN_FONT)


def save_picture(app: App[Any], folder: Path, name: str) -> Path:
    """Saves the screen as an SVG file under a name that is free. Returns its path."""
    picture = picture_of(app)
    for number in range(1, _PICTURES_MAX):
        path = folder / f"{name}{f'-{number}' if number > 1 else ''}.svg"
        with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(picture)
            return path
    raise FileExistsError(f"{folder} holds {_PICTURES_MAX} pictures of {name}")


def collect_at_rest() -> None:
    """Sets up the process of a dashboard: what is loaded so far is never garbage, and full collections, which take
    longer than any key, are left to ``BaseApp``."""
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], _COLLECTIONS_MAX)


class BaseApp(App[None]):
    """``problems`` are to be told when there is a screen."""

    TITLE = "rmqadmin"
    interval_s: reactive[float] = reactive(2.0, init=False)
    shows_system: reactive[bool] = reactive(False, init=False)
    """Whether lists also show what belongs to RocketMQ itself."""

    def __init__(self, settings: DashboardSettings):
        super().__init__()
        self.settings = settings
        self.read_only = settings.read_only
        remembered, damage = read_or_set_aside()
        self.set_reactive(BaseApp.interval_s, settings.interval_s)
        self.set_reactive(BaseApp.shows_system, remembered.shows_system)
        self.problems = [*([damage] if damage else []), *self._find_theme(remembered.theme)]
        self._wanted_theme = remembered.theme or self.theme
        self.set_keymap(keymap(settings.keys))
        self.problems += unknown_names(settings.keys)
        self._touched_ms = self._away_since_ms = self.now_ms()
        self._touched_s = time.monotonic()
        """As ``_touched_ms``, by a clock that also goes on while a recording is held."""
        self._is_frozen = False
        """Whether there may be garbage among what is frozen."""
        self._is_ready = self._is_to_leave = False

    def on_ready(self) -> None:
        self._is_ready = True
        if self._is_to_leave:
            self.exit()

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda theme: self._keep_theme(theme.name))
        self.app_resume_signal.subscribe(self, lambda _: self.refresh())  # the shell has written over what was drawn
        for problem in self.problems:
            self.say(problem, is_error=True)
        self.set_interval(_COLLECTED_EVERY_S, self._collect)
        if self.is_web:
            server = os.getppid()
            self.set_interval(_SERVER_LOOKED_FOR_S, lambda: self._end_without(server))

    def _collect(self) -> None:
        """Collects garbage while the user presses no key, if it is time. In a process that ``collect_at_rest`` has set
        up, what is left is frozen: else each collection would look at all of it again, a tenth of a second with a
        thousand topics. Screens that are closed later are garbage among it."""
        rest_s = time.monotonic() - self._touched_s
        is_away = rest_s >= THAWED_AFTER_S
        if rest_s < COLLECTED_AFTER_S or not (gc.get_count()[2] > _COLLECTIONS_MIN or (is_away and self._is_frozen)):
            return
        freezes, self._is_frozen = gc.get_freeze_count() > 0, not is_away
        if is_away:
            gc.unfreeze()
        gc.collect()
        if freezes:
            gc.freeze()

    def _end_without(self, server: int) -> None:
        """Ends the dashboard of a page when the web server has ended, even if that was killed."""
        if os.getppid() != server:
            os._exit(1)  # nobody is left to see or hear anything

    def leave(self) -> None:
        """Ends the dashboard, from any thread. While it starts: as soon as it has started, as Textual fails if it is
        ended before its first frame."""
        self._is_to_leave = True
        if self._is_ready:
            self.exit()

    def action_suspend(self) -> None:
        """Stops the program until its shell goes on with it, and with it what may stand between both, such as ``uv
        run``, which would keep the terminal. One that no shell has started would stay stopped."""
        if self.is_web or self.is_headless or os.getpgrp() == os.getsid(0):
            self.say("no shell waits for this program: q quits", is_error=True)
        else:
            with self.suspend():
                # Textual's handler, called late, would begin to read the keys a second time.
                handler = signal.signal(signal.SIGCONT, signal.SIG_DFL)
                os.killpg(0, signal.SIGSTOP)
                signal.signal(signal.SIGCONT, handler)

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        variables.update(readable(variables))
        return variables

    def _find_theme(self, wanted: str | None) -> list[str]:
        """Puts on the theme that was chosen last, or the default one. Returns what is wrong with the themes. The style
        sheet has not been read at this point, but has the colours of Textual's own theme."""
        from rmqadmin.tui.themes import DARK, LIGHT, read_themes, themes_dir

        themes, problems = read_themes(themes_dir())
        for theme in (DARK, LIGHT, *themes):
            self.register_theme(theme)
        self.set_reactive(App.theme, DARK.name)
        if wanted in self.available_themes:
            self.set_reactive(App.theme, wanted)
        elif wanted is not None:
            problems.append(f"the theme {wanted} no longer exists")
        self.stylesheet.set_variables(self.get_css_variables())
        return problems

    # --- input -------------------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent) and not self.screen_stack:
            return  # a key behind the one that quits
        if isinstance(event, events.Key) and not isinstance(self.focused, Input):
            event = as_narrow(event)
        if isinstance(event, events.Key | events.MouseDown | events.MouseScrollDown | events.MouseScrollUp):
            self._away_since_ms, self._touched_ms = self.away_since_ms, self.now_ms()
            self._touched_s = time.monotonic()
        await super().on_event(event)

    @property
    def away_since_ms(self) -> int:
        """When the user's current absence began, or the last one if the user is back. Before any absence, when the
        dashboard was started."""
        return self._touched_ms if self.now_ms() - self._touched_ms > AWAY_AFTER_MS else self._away_since_ms

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

    # --- servers and clock -------------------------------------------------------------------------------------------

    def make_client(self, *, read_only: bool) -> DashboardClient:
        """A new client. In a read-only dashboard it is always read-only."""
        return self.settings.make_client(read_only=read_only or self.read_only)

    def now_ms(self) -> int:
        return self.settings.now_ms()

    def set_read_only(self, read_only: bool) -> None:
        self.read_only = read_only
        for screen in self.screen_stack:
            if isinstance(screen, DashboardScreen):
                screen.show_frame()
        self.refresh_bindings()

    # --- what is remembered ------------------------------------------------------------------------------------------

    def keep(self, remember: Callable[[], None]) -> None:
        begin(self, self._keep, remember, group="remember", exit_on_error=False)

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

    # --- pictures and notices ----------------------------------------------------------------------------------------

    def action_save_picture(self) -> None:
        """Saves a picture in the current directory; in a browser, among its downloads."""
        name = f"rmqadmin-{self.screen.file_name if isinstance(self.screen, DashboardScreen) else 'dialog'}"
        if self.is_web:
            picture = io.StringIO(picture_of(self))
            self.deliver_text(picture, save_filename=f"{name}.svg", mime_type="image/svg+xml")
        else:
            try:
                self.say(f"saved {save_picture(self, Path.cwd(), name)}")
            except OSError as error:
                self.say(f"the picture was not saved: {Path.cwd()}: {error.strerror or error}", is_error=True)

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Shows a notification. ``text`` may come from a broker: it is never parsed as markup."""
        self.notify(printable(text), severity="error" if is_error else "information", markup=False)
