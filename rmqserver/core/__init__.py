"""The functions over bytes that cost a broker most. There are two modules of the same names: ``_core`` in C, and
``simple``, which is used where that was not compiled. A function may leave something to its caller's general way;
``simple`` leaves more. What is stored and answered is the same."""

from rmqserver.core import simple
from rmqserver.core.simple import INDEX_UNIT, NO_TAG, CopiedRun, IndexItem, entries, seconds_since

try:
    from rmqserver.core._core import FrameCutter, PlainPulls, cut_signed, index_units, plain_records, take_wanted
except ImportError:  # installed without a C compiler
    from rmqserver.core.simple import FrameCutter, PlainPulls, cut_signed, index_units, plain_records, take_wanted

IS_NATIVE = index_units is not simple.index_units
NAME = "native" if IS_NATIVE else "python"
"""As the ready line and `doctor` say it."""

__all__ = [
    "INDEX_UNIT",
    "IS_NATIVE",
    "NAME",
    "NO_TAG",
    "CopiedRun",
    "FrameCutter",
    "IndexItem",
    "PlainPulls",
    "cut_signed",
    "entries",
    "index_units",
    "plain_records",
    "seconds_since",
    "take_wanted",
]
