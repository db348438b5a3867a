"""Shows the lines of a JSON body as a tree whose branches open and close."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.style import Style as VisualStyle
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from rmqadmin.tui.contrast import are_terminals_own
from rmqadmin.tui.widgets.texts.json_lines import MORE, NAME, NUMBER, OTHER, STRING, BranchLine

_STYLES = {
    NAME: "bold",
    NUMBER: "not bold $text-accent",
    STRING: "not bold $text-success",
    OTHER: "not bold $text-warning",
    MORE: "italic",
}
_STYLES_ANSI = {
    NUMBER: "not bold ansi_cyan",
    STRING: "not bold ansi_green",
    OTHER: "not bold ansi_magenta",
}
"""In the terminal's own colours, of which a theme names too few."""


class JsonTree(Tree[BranchLine]):
    """All branches are open at first."""

    def __init__(self, lines: Sequence[BranchLine]):
        super().__init__("", data=lines[0])
        self.root.expand()
        above: list[TreeNode[BranchLine]] = [self.root]
        """The node of each level that leads to the line."""
        for line in lines[1:]:
            del above[line.depth :]
            above.append(above[-1].add("", data=line, expand=line.has_members, allow_expand=line.has_members))

    def on_mount(self) -> None:
        self.cursor_line = 0

    def render_label(self, node: TreeNode[BranchLine], base_style: Style, style: Style) -> Text:
        """The icon of a branch, and the label in the colours of its parts, or in the cursor's."""
        assert node.data is not None
        is_ansi = are_terminals_own(self.app.theme_variables)
        icon = ""
        if node.data.has_members:
            icon = self.ICON_NODE_EXPANDED if node.is_expanded else self.ICON_NODE
        text = Text(icon, style=base_style, no_wrap=True)
        for part, name in node.data.label:
            own = (_STYLES_ANSI if is_ansi else {}).get(name) or _STYLES.get(name, "")
            text.append(part, style if node is self.cursor_node else style + VisualStyle.parse(own).rich_style)
        return text
