"""Passes errors' hints through Spark, which keeps only an error's text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmqproto.errors import RocketMQError


@contextmanager
def hints_in_text() -> Iterator[None]:
    """Appends an error's hint to its text, once."""
    try:
        yield
    except RocketMQError as error:
        if error.hint is not None:
            error.args = (f"{error} ({error.hint})",)
            error.hint = None
        raise
