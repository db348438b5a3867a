"""Programs that people name in variables and settings: pagers, editors, programs that print keys."""

from __future__ import annotations

import shlex

from rmqproto.errors import UsageError


def program_words(text: str, where: str) -> list[str]:
    """The words of a program's command line. UsageError, which begins with ``where``, for a quote that is not closed
    and for no word at all."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{where}: {text}: {str(error)[:1].lower()}{str(error)[1:]}") from None
    if not words or not words[0]:
        raise UsageError(f"{where} names no program")
    return words
