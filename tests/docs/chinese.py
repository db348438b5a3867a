"""The Chinese pages: ``README-CN.md`` for ``README.md``, and ``docs/cn/NAME.md`` for ``docs/NAME.md``.

The commands have one source, the English page, whose code blocks are copied, and so tests run them for both. After a
change of an English page:

1. ``python -m tests.docs.chinese`` copies its code blocks, and leads links to Chinese pages where there are some. A new
   code block of the Chinese page may be empty: two lines of ``` are enough.
2. ``tests/docs/test_chinese.py`` names the sections whose code words, numbers, links, rows or items differ. Whoever
   does not write Chinese deletes the Chinese page, its row in the index and the link to it.

Terms: Topic 主题, queue 队列, message 消息, producer 生产者, consumer 消费者, consumer group 消费组, offset 位点 (of
the commit log 偏移量), lag 堆积, rebalance 重平衡, dead letter 死信, redrive 重投, retry 重试, delay 延时, timer 定时,
transaction 事务, half message 半消息, pop POP 消费, orderly 顺序, broadcasting 广播, master and slave 主从, fail-over
主从切换, store 存储, flush 刷盘, snapshot 快照, dry run 试运行, context 上下文, dashboard 控制台. Broker,
NameServer, Controller, Tag, Key and the names of programs, settings and commands stay as they are.
"""

import os
import re
import sys
from itertools import chain, zip_longest
from pathlib import Path

from tests.docs.links import CODE_BLOCK, anchors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGLISH = {ROOT / "README-CN.md": ROOT / "README.md"} | {
    page: DOCS / page.relative_to(DOCS / "cn") for page in sorted((DOCS / "cn").rglob("*.md"))
}
"""The English page of each Chinese one."""
CHINESE = {english: chinese for chinese, english in ENGLISH.items()}

_LINK = re.compile(r"(?<=\]\()(?!https?:)[^)\s]+(?=\))")
_CODE = re.compile(r"`[^`]+`")


def mended(chinese: Path) -> str:
    """The page with the code blocks of its English page, and with links to Chinese pages."""
    english = ENGLISH[chinese]
    blocks = CODE_BLOCK.findall(english.read_text())
    prose = CODE_BLOCK.split(chinese.read_text())
    if len(prose) != len(blocks) + 1:
        raise ValueError(f"{chinese} has {len(prose) - 1} code blocks and {english} has {len(blocks)}")
    texts = [_LINK.sub(lambda link: _led(chinese, link[0]), text) for text in prose]
    return "".join(chain(*zip_longest(texts, blocks, fillvalue="")))


def differences(chinese: Path) -> list[str]:
    """What the sections of a page and of its English page do not have in common, a line each."""
    english = ENGLISH[chinese]
    ours, theirs = _sections(chinese), _sections(english)
    if len(ours) != len(theirs):
        return [f"{len(ours)} sections, the English page has {len(theirs)}"]
    return [
        f"{text.splitlines()[0]}: {what} {sorted(map(str, wrong))}"
        for text, other in zip(ours, theirs, strict=True)
        for what, wrong in _compared(_facts(chinese, text), _facts(english, other))
        if wrong
    ]


def _compared(ours: dict[str, set[object]], theirs: dict[str, set[object]]) -> list[tuple[str, set[object]]]:
    """A Chinese text may have more numbers, since English writes small ones as words."""
    return [(what, theirs[what] - ours[what] if what == "numbers" else theirs[what] ^ ours[what]) for what in theirs]


def _sections(page: Path) -> list[str]:
    return re.split(r"^(?=#)", CODE_BLOCK.sub("~~~", page.read_text()), flags=re.MULTILINE)[1:]


def _facts(page: Path, text: str) -> dict[str, set[object]]:
    words = _CODE.sub("", text)
    lines = text.splitlines()
    shape = [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")]
    return {
        "level, code blocks, items and cells": {
            (text.index(" "), lines.count("~~~"), len(re.findall(r"^ *(?:-|\d\.) ", text, re.MULTILINE)), *shape)
        },
        "code words": {" ".join(word.split()) for word in _CODE.findall(text)},
        "links": {_place(page, link) for link in _LINK.findall(words)},
        "numbers": set(re.findall(r"\d+(?:[.,]\d+)*", _LINK.sub("", words))),
    }


def _place(page: Path, link: str) -> tuple[Path, int]:
    """The English file that a link leads to, and the number of its heading, -1 for the file itself."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    at = anchors(target).index(anchor) if anchor and anchor in anchors(target) else -1
    return ENGLISH.get(target, target).relative_to(ROOT), at


def _led(chinese: Path, link: str) -> str:
    """A link of a Chinese page, or one that was taken over from the English page as it is, to a Chinese page."""
    path, _, anchor = link.partition("#")
    if not path:
        target = chinese
    else:
        target = (chinese.parent / path).resolve()
        if not target.exists():
            target = (ENGLISH[chinese].parent / path).resolve()
    if target == ENGLISH[chinese]:
        return link  # the link to the English page at the top
    target = CHINESE.get(target, target)
    if anchor and anchor not in anchors(target):
        anchor = anchors(target)[anchors(ENGLISH.get(target, target)).index(anchor)]
    return (os.path.relpath(target, chinese.parent) if path else "") + (f"#{anchor}" if anchor else "")


def main() -> int:
    for page in ENGLISH:
        page.write_text(mended(page))
    wrong = [f"{page.relative_to(ROOT)}: {line}" for page in ENGLISH for line in differences(page)]
    if wrong:
        print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
