"""A line, or two, of the screen's own words: above the body and below it. Screens say them again whenever they may have
changed, and most often they have not."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class ToldLine(Static):
    """``tell`` it what it shows. What it shows already costs nothing: Textual drew it again, and a key that opened a
    screen waited for each of its lines three times."""

    _told = Content("")

    def tell(self, content: Content, *, layout: bool = False) -> None:
        """``layout``: whether it may take more lines, or fewer, than before."""
        if (content.plain, content.spans) != (self._told.plain, self._told.spans):
            self._told = content
            self.update(content, layout=layout)
