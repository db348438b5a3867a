"""A page is read in a few minutes: 1,200 words at most."""

from pathlib import Path

from tests.support.quick import in_one_test

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

WORDS_MAX = 1200

LONGER = {
    "README.md": 1700,
    "docs/compatibility.md": 8400,
    "docs/performance-changes.md": 1700,
    "docs/performance.md": 4600,
}
"""Pages that are still to be split or cut, with what they may have until then. These numbers only fall."""


@in_one_test(PAGES)
def test_a_page_is_short(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    count = len(page.read_text().split())
    assert count <= LONGER.get(name, WORDS_MAX)
    assert name not in LONGER or count > WORDS_MAX, "it is short: it needs no exception"


def test_every_exception_is_a_page() -> None:
    assert set(LONGER) <= {str(page.relative_to(ROOT)) for page in PAGES}
