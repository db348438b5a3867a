"""The developers' pages name files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("architecture.md", "where-is.md")


def test_every_file_that_a_page_names_is_there() -> None:
    named = [path for page in PAGES for path in re.findall(r"`([a-z_]+/[\w/.]+)`", (ROOT / "docs" / page).read_text())]
    assert len(named) > 25
    assert [path for path in named if not (ROOT / path).exists()] == []
