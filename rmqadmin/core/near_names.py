"""What a user who wrote an unknown name may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to ``name``, ignoring case, as it is written; None if none is similar."""
    from difflib import get_close_matches  # only for mistyped names

    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), spelled, n=1)
    return spelled[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that suggests ``near_name``."""
    near = near_name(name, known)
    return None if near is None else f"Did you mean {near}?"
