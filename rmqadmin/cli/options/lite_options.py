"""What several commands about lite topics share: options in mqadmin's spelling, and mqadmin's notation."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.options.value_markers import Value
from rmqproto.times import mqadmin_time

ParentTopic = Annotated[
    str, Value.TOPIC, typer.Option("-p", "--parentTopic", metavar="TOPIC", help="The topic that holds the lite topics.")
]

MQADMIN_NAME_WIDTH = 40
"""The most characters shown of a broker's name."""


def time_or(otherwise: str, time_ms: int | None) -> str:
    """mqadmin's time, or what it writes if there is none."""
    return otherwise if time_ms is None or time_ms <= 0 else mqadmin_time(time_ms, milliseconds=True)
