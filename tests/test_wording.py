"""Errors and notices say ``1 queue`` and ``2 queues``, never ``1 queues``."""

import re
from pathlib import Path

import pytest

from rmqproto.wording import counted

ROOT = Path(__file__).parent.parent
_COUNTED = "broker|client|controller|dead letter|group|message|name server|queue|row|server|time|topic"
_BY_HAND = re.compile(rf"(?<!\d)\{{[^{{}}]*\}} ((?:more |new |other )?(?:{_COUNTED})s)\b")
"""A value that is filled in, followed by one of these plurals."""

_ALWAYS_SEVERAL = {
    ("rmqadmin/cli/output/diagnostics.py", "servers"),  # two or more
    ("rmqadmin/cli/run_progress.py", "messages"),  # more are still expected
    ("rmqadmin/testing/rocketmq.py", "messages"),  # in an assertion
    ("rmqadmin/tui/screens/topics.py", "messages"),  # a total, worded like a column
    ("rmqadmin/tui/widgets/frame.py", "times"),  # from 2 on
    ("rmqadmin/core/messages/files/formats.py", "messages"),  # in a damaged file
    ("rmqadmin/commands/message/queries.py", "messages"),
    ("rmqadmin/commands/message/msg_get.py", "topics"),  # not 1
    ("rmqadmin/commands/message/msg_get.py", "messages"),  # from 2 on
    ("rmqadmin/commands/message/msg_send.py", "messages"),
    ("rmqadmin/core/messages/importing/importer.py", "messages"),  # 1,000
    ("rmqadmin/core/groups/running_info.py", "times"),  # Apache's wording
    ("rmqadmin/tui/dialogs/change.py", "rows"),  # more than fit
    ("rmqadmin/commands/checks.py", "dead letters"),  # after the group's name
}


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (1, ("queue",), "1 queue"), (0, ("queue",), "0 queues"), (1000, ("queue",), "1,000 queues"),
        (1, ("entry", "entries"), "1 entry"), (2, ("entry", "entries"), "2 entries"),
    ],
)  # fmt: skip
def test_one_is_not_many(number: int, nouns: tuple[str, ...], text: str) -> None:
    assert counted(number, *nouns) == text


def test_no_text_makes_a_plural_by_hand() -> None:
    """A message that had come back once was said to have come back "1 times"."""
    found = set()
    for package in ("rmqadmin", "rmqreplay", "spark_tools"):
        for path in (ROOT / package).rglob("*.py"):
            for line in path.read_text().splitlines():
                if 'f"' in line:
                    found |= {(str(path.relative_to(ROOT)), each[1]) for each in _BY_HAND.finditer(line)}
    assert found - _ALWAYS_SEVERAL == set()
