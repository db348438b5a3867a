"""Errors and notices say ``1 queue`` and ``2 queues``: none says ``1 queues``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqproto.wording import counted

ROOT = Path(__file__).parent.parent
_COUNTED = "broker|client|controller|dead letter|group|message|name server|queue|row|server|time|topic"
_BY_HAND = re.compile(rf"(?<!\d)\{{[^{{}}]*\}} ((?:more |new |other )?(?:{_COUNTED})s)\b")
"""A number that is filled in, and one of these behind it."""

_ALWAYS_SEVERAL = {
    ("rmqadmin/diagnostics.py", "servers"),  # of two or more
    ("rmqadmin/shared/replay_progress.py", "messages"),  # of which more are expected
    ("rmqadmin/testing/rocketmq.py", "messages"),  # of an assertion
    ("rmqadmin/tui/screens/topics.py", "messages"),  # a total, as a column says it
    ("rmqadmin/tui/widgets/status_line.py", "times"),  # from two on
    ("rmqadmin/core/messages/files/message_pack.py", "messages"),  # a damaged file
    ("rmqadmin/commands/message/query_msg_by_key.py", "messages"),
    ("rmqadmin/commands/msg/msg_get.py", "topics"),  # not one
    ("rmqadmin/commands/msg/msg_get.py", "messages"),  # from two on
    ("rmqadmin/commands/msg/msg_send.py", "messages"),
    ("rmqadmin/core/messages/importing/importer.py", "messages"),  # a thousand
    ("rmqadmin/core/groups/running_info.py", "times"),  # as Apache's tool says it
    ("rmqadmin/tui/dialogs/change.py", "rows"),  # more than there is room for
    ("rmqadmin/commands/check/check_dlq.py", "dead letters"),  # whose they are
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
    """A message that had come back once "came back 1 times"."""
    found = set()
    for package in ("rmqadmin", "spark_tools"):
        for path in (ROOT / package).rglob("*.py"):
            for line in path.read_text().splitlines():
                if 'f"' in line:
                    found |= {(str(path.relative_to(ROOT)), each[1]) for each in _BY_HAND.finditer(line)}
    assert found - _ALWAYS_SEVERAL == set()
