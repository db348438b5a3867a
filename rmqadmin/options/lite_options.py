"""What several of the commands about lite topics share: options in mqadmin's spelling, and how mqadmin writes."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.core.times import mqadmin_time

ParentTopic = Annotated[
    str, typer.Option("-p", "--parentTopic", metavar="TOPIC", help="The topic that holds the lite topics.")
]

MQADMIN_NAME_WIDTH = 40
"""At most so many characters of a broker's name."""


def time_or(otherwise: str, time_ms: int | None) -> str:
    """mqadmin's time, or what it writes where there is none."""
    return otherwise if time_ms is None or time_ms <= 0 else mqadmin_time(time_ms, milliseconds=True)
