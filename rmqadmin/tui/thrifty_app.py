"""An app that reads its style sheet once for each theme, draws a new screen once, and loses no timer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.screen import Screen
from textual.timer import Timer, TimerCallback
from textual.widgets._toast import ToastRack

from rmqadmin.tui.thrifty_screen import AwaitScreen

if TYPE_CHECKING:
    from textual.widget import AwaitMount


class ThriftyApp(App[None]):
    """The base of the dashboard. What is here replaces internals of Textual 8.2; ``ThriftyScreen`` does so for
    screens."""

    _theme_read: str
    """The theme for which the style sheet was read last. A subclass sets it before the app runs."""

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """As Textual's, but the call is made however late it is. Textual 8.2 drops the only call of a timer if the
        process waits for a processor that long at its start. Of a new size of the terminal it hears by a timer of 8 ms,
        and once that was lost, the dashboard kept its size for good."""
        timer = super().set_timer(delay, callback, name=name, pause=True)
        timer._skip = False
        if not pause:
            timer.resume()
        return timer

    def refresh_css(self, animate: bool = True) -> None:
        """Reads the style sheet again only for another theme. Textual reads it twice for each mode that is opened for
        the first time: 25 of the 85 ms that the first screen takes. Screens of other modes keep the old theme until
        they are shown."""
        if self.theme != self._theme_read:
            self._theme_read = self.theme
            self.run_worker(self._put_on_theme(), group="theme", exclusive=True)
            return
        for screen in self.screen_stack:
            if screen._css_update_count != self._css_update_count:
                self.stylesheet.update(screen)
                screen._css_update_count = self._css_update_count

    async def _put_on_theme(self) -> None:
        """Reads the style sheet for the current theme and styles all screens by it, a few widgets in each turn of the
        loop."""
        from rmqadmin.tui.widget_styles import find_styles, read_again

        before, variables = self.theme_variables, self.get_css_variables()
        now, self.theme_variables = self.theme_variables, before  # lines drawn meanwhile have the old colours
        read = await read_again(self.stylesheet, variables)
        for place, (css, is_default, tie_breaker, scope) in self.stylesheet.source.items():
            read.add_source(css, place, is_default, tie_breaker, scope)  # what was opened meanwhile
        self.stylesheet, self.theme_variables = read, now
        self._invalidate_css()
        screen = self.screen
        await find_styles([self, *screen.walk_children(with_self=True)])
        screen._css_update_count = self._css_update_count
        self.refresh_css()  # of the screens below a dialog, or opened meanwhile
        self.screen.refresh(layout=True)
        self.screen.refresh()

    def as_styled_now(self, screen: Screen[Any]) -> Screen[Any]:
        """Notes that a new screen gets its styles by the current theme when it is mounted."""
        screen._css_update_count = self._css_update_count
        return screen

    def delay_update(self, delay: float = 0.05) -> None:
        """No delay. Textual draws nothing for that long after it opens a mode, including at the start, because a screen
        might be incomplete. Our screens are complete once they have their size, and are drawn only then."""

    def _get_screen(self, screen: Screen[Any] | str) -> tuple[Screen[Any], AwaitMount]:
        found = self.get_screen(screen)
        self._read_later_sheets()
        mounting = AwaitScreen(found, [] if found.is_running else self._register(self, self.as_styled_now(found)))
        self.call_next(mounting)
        return found, mounting

    def _read_later_sheets(self) -> None:
        """For a screen that is opened while they are still being read in turns."""
        from rmqadmin.tui.widget_styles import read_later_sheet

        while read_later_sheet(self.stylesheet):
            pass

    def _refresh_notifications(self) -> None:
        """Only if there is something to show or hide. Textual hides the notifications' widget on each new screen even
        if it is hidden already, and lays out and draws the whole screen again for that."""
        if self._notifications or any(rack.display for rack in self.screen.query_children(ToastRack)):
            super()._refresh_notifications()
