"""How a command's options want its result shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqadmin.cli.output.asked_columns import AS_USUAL, AskedColumns
from rmqadmin.cli.output.output_format import Color, Format

if TYPE_CHECKING:
    from rmqadmin.cli.output.picked_fields import PickedFields


class Look(msgspec.Struct, frozen=True):
    """``asked``: the columns to show, and whether with their head. ``picked``: shows these fields instead of the
    format."""

    format: Format
    color: Color = Color.AUTO
    asked: AskedColumns = AS_USUAL
    picked: PickedFields | None = None
