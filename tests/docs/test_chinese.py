"""A Chinese page has the commands of its English page, and says as much: a change of the English page fails here until
the Chinese one follows. ``tests/docs/chinese.py`` says how."""

import os
from pathlib import Path

import pytest

from tests.docs import chinese
from tests.docs.chinese import ENGLISH, differences, mended
from tests.support.quick import in_one_test


@in_one_test(*ENGLISH)
def test_a_page_has_the_code_blocks_of_its_english_page_and_leads_to_chinese_pages(page: Path) -> None:
    assert mended(page) == page.read_text(), "python -m tests.docs.chinese"


@in_one_test(*ENGLISH)
def test_a_page_says_as_much_as_its_english_page(page: Path) -> None:
    assert differences(page) == [], f"{page}: tests/docs/chinese.py says what to do"


@in_one_test(*ENGLISH.items())
def test_both_languages_lead_to_each_other_at_the_top(page: Path, english: Path) -> None:
    for one, other, name in ((page, english, "English"), (english, page, "中文")):
        assert one.read_text().splitlines()[2] == f"[{name}]({os.path.relpath(other, one.parent)})"


def test_a_page_that_fell_behind_is_told_by_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, english = tmp_path / "cn.md", tmp_path / "en.md"
    page.write_text("# 一\n\n三个 `a` [看](cn.md#二)\n\n## 二\n\n```\n```\n\n| `b` |\n")
    english.write_text("# One\n\nthree `a` [see](en.md#two)\n\n## Two\n\n```\nls\n```\n\n| `b` |\n| 7 `c` |\n")
    monkeypatch.setattr(chinese, "ROOT", tmp_path)
    monkeypatch.setitem(ENGLISH, page, english)
    assert mended(page) == page.read_text().replace("```\n```", "```\nls\n```")
    shape, words, numbers = differences(page)
    assert shape.startswith("## 二: level, code blocks, items and cells")
    assert (words, numbers) == ("## 二: code words ['`c`']", "## 二: numbers ['7']")
