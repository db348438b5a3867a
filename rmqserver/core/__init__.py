"""The functions over bytes that cost a broker most. There are two of everything: in C, in ``_core``, and in
``simple`` and ``round_buffer``, which are used where that was not compiled. A function may leave something to its
caller's general way; ``simple`` leaves more. What is stored and answered is the same."""

from rmqserver.core import simple
from rmqserver.core.round_buffer import BATCH_COUNT_MAX, Appended
from rmqserver.core.simple import (
    ENTRY,
    INDEX_UNIT,
    NO_TAG,
    OF_NO_KEY,
    OF_TAG,
    CopiedRun,
    CutAck,
    CutSend,
    IndexItem,
    Role,
    log_offsets_of,
    pack_entries,
    packed,
    seconds_since,
)

try:
    from rmqserver.core._core import (
        CONTRACT,
        FrameCutter,
        HeaderDecoder,
        PlainPulls,
        PlainSends,
        Puts,
        RoundBuffer,
        cut_ack,
        cut_send,
        cut_signed,
        flush_dirty,
        index_units,
        pack_received,
        plain_records,
        serve_ready,
        take_wanted,
    )

    if simple.CONTRACT != CONTRACT:
        raise ImportError("the native core was built from older sources")
except ImportError:  # installed without a C compiler, or that
    from rmqserver.core.header_blocks import HeaderDecoder
    from rmqserver.core.round_buffer import RoundBuffer
    from rmqserver.core.simple import (
        FrameCutter,
        PlainPulls,
        PlainSends,
        Puts,
        cut_ack,
        cut_send,
        cut_signed,
        flush_dirty,
        index_units,
        pack_received,
        plain_records,
        serve_ready,
        take_wanted,
    )

IS_NATIVE = index_units is not simple.index_units
NAME = "native" if IS_NATIVE else "python"
"""As the ready line and `doctor` say it."""

__all__ = [
    "BATCH_COUNT_MAX",
    "ENTRY",
    "INDEX_UNIT",
    "IS_NATIVE",
    "NAME",
    "NO_TAG",
    "OF_NO_KEY",
    "OF_TAG",
    "Appended",
    "CopiedRun",
    "CutAck",
    "CutSend",
    "FrameCutter",
    "HeaderDecoder",
    "IndexItem",
    "PlainPulls",
    "PlainSends",
    "Puts",
    "Role",
    "RoundBuffer",
    "cut_ack",
    "cut_send",
    "cut_signed",
    "flush_dirty",
    "index_units",
    "log_offsets_of",
    "pack_entries",
    "pack_received",
    "packed",
    "plain_records",
    "seconds_since",
    "serve_ready",
    "take_wanted",
]
