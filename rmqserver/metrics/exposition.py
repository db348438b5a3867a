"""Prometheus' text format, version 0.0.4: families of samples as lines of text. It knows no broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

COUNTER, GAUGE = "counter", "gauge"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class LabelledValue(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Family(NamedTuple):
    """``samples`` may be a generator: samples of many groups are computed piece by piece."""

    name: str
    kind: str
    help: str
    samples: Iterable[LabelledValue]


def render(families: Iterable[Family], labels: Mapping[str, str]) -> Iterator[str]:
    """Yields line by line, each with its end. ``labels`` are common to all samples and precede each sample's own."""
    common = _pairs(labels)
    for family in families:
        yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
        for sample in family.samples:
            pairs = ",".join(filter(None, (common, _pairs(sample.labels))))
            yield f"{family.name}{{{pairs}}} {_number(sample.value)}\n"


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(value)
