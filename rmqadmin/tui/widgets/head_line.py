"""The first line: which servers, whether anything can be changed, and the way down to this screen."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from rmqadmin.tui.literal import literal

READ_ONLY_BADGE = " READ-ONLY "


class HeadLine(Static):
    """``show`` it anew when the way changes."""

    def show(self, namesrv: str, read_only: bool, way: list[str]) -> None:
        parts = [Content.styled(" rmqadmin ", "bold $text on $primary"), literal(f" {namesrv} ", "$text-muted")]
        if read_only:
            parts.append(Content.styled(READ_ONLY_BADGE, "bold $text on $warning"))
        parts.append(Content(" "))
        for at, step in enumerate(way):
            if at:
                parts.append(Content.styled(" › ", "$text-muted"))
            parts.append(literal(step, "bold" if at == len(way) - 1 else ""))
        self.update(Content.assemble(*parts), layout=False)
