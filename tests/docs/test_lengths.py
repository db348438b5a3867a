"""A page is read in a few minutes: 1,200 words at most."""

from pathlib import Path

from tests.support.quick import in_one_test

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

WORDS_MAX = 1200


@in_one_test(*PAGES)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text().split()) <= WORDS_MAX
