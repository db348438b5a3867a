"""Where the links of a page lead."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

CODE_BLOCK = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> list[str]:
    """The anchors of a page's headings, as GitHub makes them: letters, digits, - and _ are kept, the rest is dropped. A
    repeated heading gets a number."""
    found: Counter[str] = Counter()
    names = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", CODE_BLOCK.sub("", page.read_text()), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        names.append(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names
