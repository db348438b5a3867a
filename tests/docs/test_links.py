"""Every link between our pages works: the file exists, and so does the heading. So does every page that a program
names."""

import re
from pathlib import Path

from tests.docs.links import anchors
from tests.support.quick import in_one_test

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = ("rmqproto", "rmqclient", "rmqserver", "rmqadmin", "spark_tools")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def broken(page: Path) -> list[str]:
    wrong = []
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@in_one_test(*PAGES)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# One `two` [three](x)\n## Same\n## Same\n```\n# none\n```\n")
    links = ("there.md", "there.md#one-two-three", "there.md#same-1", "#here", "gone.md", "there.md#none", "#gone")
    page = tmp_path / "page.md"
    page.write_text("# Here\n" + "".join(f"[x]({link})\n" for link in links) + "`[x](code.md)`\n")
    assert broken(page) == ["gone.md", "there.md#none", "#gone"]


def test_every_page_is_reached_from_the_index() -> None:
    english, chinese = ROOT / "docs/README.md", ROOT / "docs/cn/README.md"
    linked = {
        (index.parent / link.partition("#")[0]).resolve()
        for index in (english, chinese)
        for link in _LINK.findall(index.read_text())
    }
    assert {page for page in PAGES if page.is_relative_to(english.parent)} - linked == set()


def test_every_page_that_a_program_names_is_there() -> None:
    sources = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    named = {name for path in sources for name in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text())}
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
