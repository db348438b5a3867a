"""Options that commands share are declared once."""

import ast
from collections import defaultdict
from pathlib import Path

import rmqadmin


def test_no_option_is_declared_twice() -> None:
    """An option of two commands belongs in ``command_options.py`` or ``message_options.py``. Otherwise one copy could
    change without the other."""
    places: dict[str, list[str]] = defaultdict(list)
    root = Path(rmqadmin.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Annotated":
                text = ast.unparse(node)
                if "option(" in text:
                    places[text].append(f"{path.relative_to(root)}:{node.lineno}")
    assert len(places) > 50
    assert {text: where for text, where in places.items() if len(where) > 1} == {}
