"""Garbage collections in Spark's Python processes."""

import gc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from spark_tools import part_reader
from spark_tools.partitions import ScanPart
from spark_tools.source_options import parse_read_options
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


def test_what_the_first_read_loads_is_not_walked_again_either(monkeypatch):
    order = []
    monkeypatch.setattr(part_reader, "spare_modules", lambda: order.append("spared"))
    monkeypatch.setattr(part_reader, "read_part", lambda part, rules: map(order.append, ["read"]))
    part = ScanPart(root="store", broker_name="b", base=0, begin=0, end=1, topics=None, ranges=None)
    list(part_reader.read_any(part, parse_read_options({"path": "store"}), ["topic"]))
    assert order == ["read", "spared"]
