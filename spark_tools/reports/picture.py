"""Draws a report with matplotlib, without its global state: no window, no user's style."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqproto.errors import UsageError

KINDS = (".png", ".svg", ".pdf")
_WIDTH_INCHES, _BAR_INCHES = 10, 0.45


@dataclass(frozen=True, slots=True)
class Chart:
    """Either ``lines`` (name -> points over time) or ``bars`` (label -> value by name)."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[Any, float]]] = field(default_factory=dict)
    bars: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def check_picture(path: str) -> None:
    """UsageError for another kind of file, or without matplotlib."""
    if Path(path).suffix.lower() not in KINDS:
        raise UsageError(f"{path} is no picture", hint=f"its name ends with one of {', '.join(KINDS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("matplotlib is not installed", hint="pip install 'rmqadmin[spark]'")


def draw(chart: Chart, path: str) -> None:
    """Writes the picture, in the format that the file's name says. OSError."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"text.parse_math": False}):  # a name may have dollar signs
        figure = Figure(figsize=(_WIDTH_INCHES, max(4.0, _BAR_INCHES * (len(chart.bars) + 3))), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(chart.title)
        for name, points in chart.lines.items():
            axes.plot([at for at, _ in points], [value for _, value in points], marker=".", label=name)
        if chart.lines:
            axes.set_ylabel(chart.unit)
            axes.tick_params("x", rotation=30)
        names = list(dict.fromkeys(name for values in chart.bars.values() for name in values))
        for number, name in enumerate(names):
            places = [place + 0.8 * (number + 0.5) / len(names) for place in range(len(chart.bars))]
            values = [by_name.get(name, 0) for by_name in chart.bars.values()]
            axes.bar_label(axes.barh(places, values, 0.8 / len(names), label=name), padding=3)
        if chart.bars:
            axes.set_yticks([place + 0.4 for place in range(len(chart.bars))], list(chart.bars))
            axes.invert_yaxis()
            axes.set_xlabel(chart.unit)
        if len(chart.lines) + len(names) > 1:
            axes.legend()
        figure.savefig(path)
