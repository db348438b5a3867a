"""Every key of the dashboard: one key, one meaning, on all screens. Screens bind the keys of this table by name. From
it come the footer, the sheet of keys (``?``), the page ``docs/dashboard-keys.md``, and the names by which users choose
keys of their own.

What changes something has ``ctrl`` or a capital letter, or opens a form."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

import msgspec
from textual.binding import Binding
from textual.events import Key
from textual.keys import KEY_NAME_REPLACEMENTS

from rmqadmin.core.names import did_you_mean


class Use(msgspec.Struct, frozen=True):
    """``keys``: as Textual names them. ``word``: in the footer, if it is ``shown`` there. ``does``: its meaning."""

    keys: str
    word: str
    does: str
    shown: bool = True


KEYS = {
    "pulse": Use("h", "Pulse", "is all well?", False),
    "topics": Use("t", "Topics", "all topics", False),
    "groups": Use("g", "Groups", "all groups", False),
    "letters": Use("d", "Letters", "dead letters", False),
    "brokers": Use("c", "Brokers", "brokers", False),
    "search": Use("s", "Search", "look messages up", False),
    "place": Use("colon", "Place", "a place or a thing by its name", False),
    "open": Use("enter", "Open", "into the row"),
    "keys": Use("question_mark", "Keys", "all keys that work here"),
    "filter": Use("slash", "Filter", "filter: text, `/re/`, `!` before either for its opposite"),
    "back": Use("escape", "Back", "back, with cursor and filter as they were; first closes what is open"),
    "next_part": Use("tab", "Next part", "the next part of the screen; `shift+tab` the one before"),
    **{f"tab_{at}": Use(str(at), f"Tab {at}", f"tab {at} of this screen", False) for at in range(1, 9)},
    "before": Use("left_square_bracket", "Before", "what is before: the row above, older messages"),
    "after": Use("right_square_bracket", "After", "what is after: the row below, newer messages"),
    "up": Use("up,k", "Up", "up", False),
    "down": Use("down,j", "Down", "down", False),
    "page_up": Use("pageup,ctrl+b", "Page up", "a page up", False),
    "page_down": Use("pagedown,ctrl+f", "Page down", "a page down", False),
    "first": Use("home,ctrl+home", "First", "the first row", False),
    "last": Use("end,G,ctrl+end", "Last", "the last row", False),
    "sort_next": Use("greater_than_sign", "Sort", "sort by the next column; after the last, the worst is first", False),
    "sort_previous": Use("less_than_sign", "Sort back", "sort by the column before", False),
    "reverse": Use("o", "Turn round", "turn the order round", False),
    "plot": Use("l", "Plot", "plot the row's numbers over time"),
    "copy": Use("y", "Copy", "copy the name of the row; of a message, its id", False),
    "copy_row": Use("Y", "Copy row", "copy the whole row; of a message, its body", False),
    "system": Use("z", "System", "show or hide what is RocketMQ's own"),
    "hold": Use("full_stop", "Hold", "hold: stop refreshing, searching, sending; again: go on", False),
    "faster": Use("plus,equals_sign", "Faster", "ask more often", False),
    "slower": Use("minus", "Slower", "ask less often", False),
    "refresh": Use("r", "Refresh", "ask now", False),
    "mark": Use("space", "Mark", "mark the row, and go to the next"),
    "mark_all": Use("a", "Mark all", "mark all that match the filter; again: none of them"),
    "export": Use("x", "Export", "write into a file: the marked messages, the body, or the shown rows", False),
    "messages": Use("m", "Messages", "messages of the row"),
    "permissions": Use("p", "Permissions", "permissions: of the topic, of a broker's users, of a user"),
    "stacks": Use("b", "Stacks", "stacks of the member's threads"),
    "fold": Use("f", "Fold", "fold long lines, or not"),
    "pager": Use("v", "Pager", "the body in your pager"),
    "new": Use("n", "New", "a new one"),
    "edit": Use("e", "Edit", "change it"),
    "send": Use("w", "Send", "write and send a message"),
    "delete": Use("ctrl+d", "Delete", "delete it; forget a broker that is gone"),
    "revoke": Use("ctrl+x", "Revoke", "revoke the permission"),
    "reset": Use("ctrl+r", "Reset", "reset offsets"),
    "write_perm": Use("ctrl+e", "Write perm", "write permission of a broker"),
    "redrive": Use("R", "Redrive", "redrive the marked letters, or this one"),
    "undo": Use("u", "Undo", "undo the last change since the start, after a preview", False),
    "shell": Use("ctrl+y", "Copy command", "copy the shell command of what is shown"),
    "replay_next": Use("right", "Next step", "of a recording: the next step"),
    "replay_previous": Use("left", "Previous step", "of a recording: the step before"),
    "replay_minute_on": Use("shift+right", "A minute on", "of a recording: a minute on", False),
    "replay_minute_back": Use("shift+left", "A minute back", "of a recording: a minute back", False),
    "picture": Use("ctrl+s", "Save as SVG", "save the screen as a picture", False),
    "suspend": Use("ctrl+z", "Suspend", "to the shell, until `fg`", False),
    "quit": Use("q", "Quit", "quit"),
}
"""By the names that ``[keys]`` of ``tui.toml`` takes."""


def bound(
    name: str,
    action: str | None = None,
    word: str | None = None,
    *,
    shown: bool | None = None,
    priority: bool = False,
    group: Binding.Group | None = None,
) -> Binding:
    """Binds the keys of a name to an action, by default that of the same name. ``word`` and ``shown``: where those of
    the table do not fit this screen."""
    use = KEYS[name]
    return Binding(
        use.keys,
        action or name,
        word or use.word,
        show=use.shown if shown is None else shown,
        priority=priority,
        tooltip=use.does,
        id=name,
        group=group,
    )


def keymap(own: Mapping[str, str]) -> dict[str, str]:
    """The user's keys. One that was the second key of another action is that no more."""
    taken = {one.strip() for keys in own.values() for one in keys.split(",")}
    left = {name: [one for one in use.keys.split(",") if one not in taken] for name, use in KEYS.items()}
    return {**{name: ",".join(keys) for name, keys in left.items() if keys}, **own}


def unknown_names(names: Iterable[str]) -> list[str]:
    """A complaint for each name that no key has. Textual ignores such names."""
    return [
        f"tui.toml: the key {one} is unknown. {did_you_mean(one, KEYS) or ''}".rstrip()
        for one in names
        if one not in KEYS
    ]


_FIRST, _LAST, _APART = 0xFF01, 0xFF5E, 0xFEE0
"""The full-width forms, in the order of ASCII, and how far they are from it."""

_OTHERS = {"。": ".", "、": "/", "　": " "}
"""What else these keys give."""


def as_narrow(event: Key) -> Key:
    """The key that was meant by one in full width, as Chinese and Japanese input methods send them: ``：？／`` are the
    keys ``:?/``. Not for a line of text, where it is what the user typed."""
    wide = event.character
    if wide is None or len(wide) != 1 or not (_FIRST <= ord(wide) <= _LAST or wide in _OTHERS):
        return event
    narrow = _OTHERS.get(wide) or chr(ord(wide) - _APART)
    if narrow.isalnum():
        return Key(narrow, narrow)
    name = unicodedata.name(narrow).lower().replace("-", "_").replace(" ", "_")
    return Key(KEY_NAME_REPLACEMENTS.get(name, name), narrow)
