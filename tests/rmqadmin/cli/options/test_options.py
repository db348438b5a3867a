"""Options that commands share are declared once."""

import ast
from collections import defaultdict
from pathlib import Path

import rmqadmin
from tests.support.source_trees import tree_of


def test_no_option_is_declared_twice() -> None:
    """An option of two commands belongs in ``command_options.py`` or ``message_options.py``. Otherwise one copy could
    change without the other."""
    places: dict[str, list[str]] = defaultdict(list)
    root = Path(rmqadmin.__file__).parent
    for path in (path for path in sorted(root.rglob("*.py")) if "option(" in path.read_text()):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Annotated":
                text = ast.unparse(node)
                if "option(" in text:
                    places[text].append(f"{path.relative_to(root)}:{node.lineno}")
    assert len(places) > 50
    assert {text: where for text, where in places.items() if len(where) > 1} == {}
