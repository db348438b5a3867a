"""Makes text from brokers safe to show: it is not parsed as markup and cannot control the terminal.

Every string from a server reaches the screen through this module. Textual parses any ``str`` (table cells, tree labels,
notifications), so it is never given one."""

from __future__ import annotations

from textual.content import Content

from rmqadmin.core.terminal_text import printable


def literal(text: str, style: str = "") -> Content:
    """One line; control characters are shown as escapes."""
    return Content.styled(printable(text), style) if style else Content(printable(text))
