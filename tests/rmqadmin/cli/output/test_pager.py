"""What is written to a terminal without a pager. With one: ``tests/rmqadmin/test_terminal.py``."""

import weakref
from collections.abc import Iterator

import pytest

from rmqadmin.cli.output.pager import page


class Line(str):
    """A text of which it can be told whether anybody still has it."""


def test_what_was_shown_without_a_pager_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LINES", "3")
    monkeypatch.setenv("TERM", "dumb")
    shown: list[weakref.ref[Line]] = []
    kept: list[int] = []

    def lines() -> Iterator[str]:
        for number in range(9):
            kept.append(sum(one() is not None for one in shown))
            line = Line(f"{number}\n")
            shown.append(weakref.ref(line))
            yield line

    page(lines())
    assert capsys.readouterr().out.split() == list("012345678")
    assert kept == [0, 1, 2, *[1] * 6], "three lines fill the terminal; then there is only the last one"
