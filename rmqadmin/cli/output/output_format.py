"""The formats and colours of output, as options, settings and the environment name them."""

import os
from enum import StrEnum
from typing import TextIO

from rmqadmin.core.names import did_you_mean
from rmqproto.errors import UsageError


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    CSV = "csv"
    TSV = "tsv"
    NAME = "name"
    SCHEMA = "schema"
    MQADMIN = "mqadmin"


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


DOCUMENTS = frozenset({Format.JSON, Format.YAML})
"""Formats that are one document, with all rows and the summary."""

COLUMNED = frozenset({Format.TABLE, Format.WIDE, Format.CSV, Format.TSV})
"""Formats with a head and a column for each field."""

JSON_FORMATS = frozenset({Format.JSON, Format.JSONL})

_OTHERS_NAMES = {"ndjson": "jsonl", "text": "table", "names": "name", "yml": "yaml"}
"""Other programs' names for some of the formats."""


def parse_format(text: str, where: str) -> Format:
    """The format of this name. UsageError that names the choices. ``where`` is where the text came from, for the
    message."""
    try:
        return Format(text.lower())
    except ValueError:
        meant = did_you_mean(_OTHERS_NAMES.get(text.lower(), text), Format)
        known = f"The formats are {', '.join(Format)}."
        hint = known if meant is None else f"{meant} {known}"
        raise UsageError(f"{where}: {text!r} is not an output format", hint=hint) from None


def wants_color(color: Color, stream: TextIO) -> bool:
    """Whether to use colour. NO_COLOR, FORCE_COLOR and TERM=dumb mean what they mean everywhere; ``--color`` overrides
    them."""
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()
