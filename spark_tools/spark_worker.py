"""Spark's Python processes, which outlive their tasks."""

from __future__ import annotations

import functools
import gc
import sys

_REUSED = "pyspark.daemon"
"""The program whose children run one task after another."""


@functools.cache
def spare_modules() -> None:
    """Takes all that this process has loaded out of its garbage collections. Spark collects after every task, which
    takes long once numpy, pandas and pyarrow are there."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == _REUSED:
        gc.freeze()
