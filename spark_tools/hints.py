"""What a person hears through Spark: errors' hints, of which it keeps only the text, and lines of its log."""

from __future__ import annotations

import sys
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


def tell(text: str) -> None:
    """To Spark's log, the only output of its processes."""
    print(f"rocketmq: {text}", file=sys.stderr)  # noqa: T201
