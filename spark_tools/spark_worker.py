"""Spark's Python processes, which outlive their tasks, and what a person hears through them: errors' hints, of which
Spark keeps only the text, and lines of its log."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rmqproto.errors import RocketMQError

_REUSED = "pyspark.daemon"
"""The program whose children run one task after another."""


@functools.cache
def spare_modules() -> None:
    """Takes all that this process has loaded out of its garbage collections. Spark collects after every task, which
    takes long once numpy, pandas and pyarrow are there."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == _REUSED:
        gc.freeze()


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
