"""The last line: the keys of the focused widget and of its screen. A click on a key presses it.

Textual's Footer makes new widgets for all keys at every change of focus: 15 ms for each screen that is opened. The old
ones stay in memory as long as the screen.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen
from textual.style import Style

from rmqadmin.tui.widgets.told_line import ToldLine

KEPT_GROUP = Binding.Group("kept")
"""Keys that are always shown: help, and how to leave."""

PICTURE_KEY = Binding("ctrl+s", "app.save_picture", "Save as SVG", show=False, id="app.picture")
"""A key of the app and of each dialog, because the app's own keys do not work under a dialog."""

GO_GROUP = Binding.Group("Go", compact=True)
"""The keys of the nouns."""

_EVERYWHERE = ("table.sort_next", GO_GROUP, "screen.filter", "screen.back")
"""Keys that work on every screen, by id or group. They are left out first if there is no room."""

_GAP = Content(" ")
_MORE = Content("…")
_KEY_META = "pressed_key"


class ShownKey(msgspec.Struct, frozen=True):
    """One key of the line. ``letters`` is the key alone, for a group that is drawn together. ``id`` is its
    binding's."""

    whole: Content
    letters: Content
    group: Binding.Group | None
    id: str | None = None


class KeyLine(ToldLine):
    """Follows the bindings of its screen by itself. If there is no room for all keys, compact groups are drawn together
    and keys are left out: keys that work on every screen first, KEPT_GROUP never."""

    _fitted_width = 0

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._show)

    def on_resize(self) -> None:
        if self.size.width != self._fitted_width:
            self._show(self.screen)

    def _show(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self._fitted_width = self.size.width or self.app.size.width
            self.tell(fitted_keys(self._keys(), self._fitted_width))

    def _keys(self) -> list[ShownKey]:
        """Each action once, with its first key. An action that cannot be used now is dim."""
        shown: dict[str, ShownKey] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            if binding.show and binding.action not in shown:
                key = Content.styled(self.app.get_key_display(binding), "bold $footer-key-foreground")
                whole = Content.assemble(key, f" {binding.description}")
                style = Style.from_meta({_KEY_META: binding.key}) if enabled else "$footer-disabled"
                shown[binding.action] = ShownKey(whole.stylize(style), key.stylize(style), binding.group, binding.id)
        return list(shown.values())

    def on_click(self, event: events.Click) -> None:
        key = event.style.meta.get(_KEY_META)
        if key is not None:
            self.app.simulate_key(key)


def fitted_keys(keys: list[ShownKey], width: int) -> Content:
    """As many keys as fit into ``width`` cells."""
    kept = [key.whole for key in keys if key.group is KEPT_GROUP]
    others = [key for key in keys if key.group is not KEPT_GROUP]
    line = _GAP.join([*(key.whole for key in others), *kept])
    if line.cell_length <= width:
        return line
    own = [(key.whole, _rank(key.id)) for key in others if key.group is None]
    groups = dict.fromkeys(key.group for key in others if key.group is not None)
    grouped = [(_together(others, group), _rank(group)) for group in groups]
    pieces = [*own, *grouped]
    shown: set[int] = set()
    for at in sorted(range(len(pieces)), key=lambda at: -pieces[at][1]):
        if _line(pieces, {*shown, at}, len(own), kept).cell_length <= width:
            shown.add(at)
    return _line(pieces, shown, len(own), kept)


def _rank(one: str | Binding.Group | None) -> int:
    """The rank of a key's id or of a group. A higher rank is left out later."""
    return _EVERYWHERE.index(one) if one in _EVERYWHERE else len(_EVERYWHERE)


def _line(pieces: Sequence[tuple[Content, int]], shown: set[int], own_count: int, kept: Sequence[Content]) -> Content:
    """The line: single keys, a sign if there are more, groups, and the kept keys."""
    own = [pieces[at][0] for at in range(own_count) if at in shown]
    grouped = [pieces[at][0] for at in range(own_count, len(pieces)) if at in shown]
    more = [_MORE] if len(shown) < len(pieces) else []
    return _GAP.join([*own, *more, *grouped, *kept])


def _together(keys: list[ShownKey], group: Binding.Group) -> Content:
    """The keys of a group as one piece: ``c t g d s Go``."""
    letters = [key.letters for key in keys if key.group is group]
    return Content.assemble(_GAP.join(letters), f" {group.description}")
