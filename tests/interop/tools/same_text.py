"""Makes the calls of ``calls.py`` with Apache's mqadmin and with ours, in this process, and compares the output."""

import contextlib
import io
import re
from difflib import unified_diff

from rmqadmin.cli import program
from tests.support.any_order import in_any_order

from ..mqadmin import Mqadmin
from .calls import MASKS, REFUSED, words_of

Names = dict[str, str]


def compare(part: str, names: Names, mqadmin: Mqadmin) -> None:
    """``names`` fill the braces. AssertionError with the differences between the two outputs."""
    others: list[str] = []
    for words in words_of(part):
        told: list[list[str]] = []
        for side, ask in (("A", lambda args: mqadmin.run(*args)[0]), ("B", _ours)):
            own = f"{names['fresh']}Own{side}"
            args = [word.format(**names, own=own) for word in words]
            text = ask(args).replace(own, "OWN")
            masked = re.sub(MASKS.get(words[0], r"\Z."), "#", text)
            told.append(in_any_order(masked.removesuffix("\n")))
        assert any(told[0]) == (words[0] not in REFUSED), words
        others += unified_diff(told[0], told[1], " ".join(words), "by ours", n=0, lineterm="")
    assert not others, "\n".join(others)


def _ours(args: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        program.run([*args, "--output", "mqadmin", "--timeout", "60"])
    return out.getvalue()
