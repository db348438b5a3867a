"""Garbage collections in Spark's Python processes."""

import gc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from spark_tools.spark_worker import spare_modules


@pytest.mark.parametrize(("program", "times"), [("pyspark.daemon", 1), ("__main__", 0)])
def test_only_workers_that_are_used_again_stop_walking_what_is_loaded(monkeypatch, program, times):
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec(program, None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    calls = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(1))
    spare_modules.cache_clear()
    for _ in range(3):
        spare_modules()
    assert len(calls) == times
    spare_modules.cache_clear()
