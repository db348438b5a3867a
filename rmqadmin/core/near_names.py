"""What somebody who wrote an unknown name may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest in any case, as it is written; None if none is near."""
    from difflib import get_close_matches  # for those who have mistyped something

    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), spelled, n=1)
    return spelled[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint with ``near_name``."""
    near = near_name(name, known)
    return None if near is None else f"Did you mean {near}?"
