"""Text from brokers as text: never parsed as markup, never driving the terminal.

Every string from a server reaches the screen through one of these. Textual parses any ``str`` (table cells, tree
labels, notifications), so it never gets one."""

from __future__ import annotations

from textual.content import Content

from rmqadmin.core.terminal_text import printable


def literal(text: str, style: str = "") -> Content:
    """One line; control characters are shown as escapes."""
    return Content.styled(printable(text), style) if style else Content(printable(text))
