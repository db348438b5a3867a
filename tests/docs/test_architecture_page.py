"""``docs/architecture.md`` names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([a-z_]+/[\w/.]+)`", PAGE)
    assert len(named) > 25
    assert [path for path in named if not (ROOT / path).exists()] == []
