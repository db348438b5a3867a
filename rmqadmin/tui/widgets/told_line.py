"""One or two lines of text above or below a screen's body. Screens set them whenever they may have changed, and mostly
they have not."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class ToldLine(Static):
    """Set its text with ``tell``, which ignores a text that is already shown. Textual drew it again: a key that opened
    a screen waited for each of its lines three times."""

    _told = Content("")

    def tell(self, content: Content, *, layout: bool = False) -> None:
        """Sets the text. ``layout``: whether the number of lines may change."""
        if (content.plain, content.spans) != (self._told.plain, self._told.spans):
            self._told = content
            self.update(content, layout=layout)
