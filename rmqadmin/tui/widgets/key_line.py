"""The last line: the keys of what has the focus and of its screen. A click on one presses it.

Textual's Footer makes a widget of each key, anew at every change of focus: 15 ms of each screen that is opened, and the
old ones stay in memory for as long as the screen does.
"""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static

_GAP = Content(" ")
_KEY_META = "pressed_key"


class KeyLine(Static):
    """Follows its screen's bindings by itself."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._show)

    def _show(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.update(self._content(), layout=False)

    def _content(self) -> Content:
        """Each action once, by the first of its keys; one that cannot be used now is dim."""
        shown: dict[str, Content] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            if binding.show and binding.action not in shown:
                key = self.app.get_key_display(binding)
                part = Content.assemble((key, "bold $footer-key-foreground"), f" {binding.description}")
                meta = Style.from_meta({_KEY_META: binding.key})
                shown[binding.action] = part.stylize(meta) if enabled else part.stylize("dim")
        return _GAP.join(shown.values())

    def on_click(self, event: events.Click) -> None:
        key = event.style.meta.get(_KEY_META)
        if key is not None:
            self.app.simulate_key(key)
