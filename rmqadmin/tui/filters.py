"""Filters typed after ``/``: text in any case, or ``/regular expression/``; ``!`` before either negates it."""

from __future__ import annotations

import re
from collections.abc import Callable

from rmqproto.errors import UsageError


def parse_filter(text: str) -> Callable[[str], bool] | None:
    """A function that says whether a row's text passes, or None for no filter. UsageError for an invalid expression."""
    inverse = text.startswith("!")
    wanted = text[1:] if inverse else text
    if wanted.startswith("/"):
        try:
            found = re.compile(wanted[1:].removesuffix("/"), re.IGNORECASE).search
        except re.error as error:
            raise UsageError(f"{wanted}: {error}") from None
        return lambda row: bool(found(row)) is not inverse
    if not wanted:
        return None
    folded = wanted.casefold()
    return lambda row: (folded in row.casefold()) is not inverse
