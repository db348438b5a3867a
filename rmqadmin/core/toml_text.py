"""Reads TOML that a person wrote: contexts, settings, keys, themes, alerts."""

from __future__ import annotations

import re
from typing import Any

from rmqproto.errors import UsageError

KEY_PARTS_MAX = 100
"""The parser's time grows with the square of a dotted key's parts: 50,000 of them take it a minute."""

_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*+){{{KEY_PARTS_MAX}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """UsageError, in the words of ``tomllib``, for text that is not TOML or that has too many levels."""
    import tomllib  # 3 ms; few commands read such a file

    text = text.removeprefix("\ufeff")  # the byte order mark of editors on Windows
    long_key = _LONG_KEY.search(text)
    if long_key is not None:
        line = text.count("\n", 0, long_key.start()) + 1
        column = long_key.start() - text.rfind("\n", 0, long_key.start())
        raise UsageError(f"A key has more than {KEY_PARTS_MAX} parts (at line {line}, column {column})")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError("It has more levels than can be read") from None
    except ValueError as error:  # also for numbers of thousands of digits
        raise UsageError(str(error)) from None
