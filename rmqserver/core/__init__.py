"""The functions over bytes that cost a broker most. There are two of everything: in C, in ``_core``, and in
``simple``, ``round_buffer`` and ``header_blocks``, which are used where that was not compiled. A function may leave
something to its caller's general way; ``simple`` leaves more. What is stored and answered is the same."""

from importlib import import_module

from rmqserver.core import simple
from rmqserver.core.header_blocks import HeaderDecoder as HeaderDecoder
from rmqserver.core.round_buffer import BATCH_COUNT_MAX as BATCH_COUNT_MAX
from rmqserver.core.round_buffer import Appended as Appended
from rmqserver.core.round_buffer import RoundBuffer as RoundBuffer
from rmqserver.core.simple import ENTRY as ENTRY
from rmqserver.core.simple import INDEX_UNIT as INDEX_UNIT
from rmqserver.core.simple import NO_TAG as NO_TAG
from rmqserver.core.simple import OF_NO_KEY as OF_NO_KEY
from rmqserver.core.simple import OF_TAG as OF_TAG
from rmqserver.core.simple import CopiedRun as CopiedRun
from rmqserver.core.simple import CutAck as CutAck
from rmqserver.core.simple import CutSend as CutSend
from rmqserver.core.simple import FrameCutter as FrameCutter
from rmqserver.core.simple import IndexItem as IndexItem
from rmqserver.core.simple import PlainPulls as PlainPulls
from rmqserver.core.simple import PlainSends as PlainSends
from rmqserver.core.simple import Puts as Puts
from rmqserver.core.simple import Role as Role
from rmqserver.core.simple import cut_ack as cut_ack
from rmqserver.core.simple import cut_send as cut_send
from rmqserver.core.simple import cut_signed as cut_signed
from rmqserver.core.simple import flush_dirty as flush_dirty
from rmqserver.core.simple import index_units as index_units
from rmqserver.core.simple import log_offsets_of as log_offsets_of
from rmqserver.core.simple import pack_entries as pack_entries
from rmqserver.core.simple import pack_received as pack_received
from rmqserver.core.simple import packed as packed
from rmqserver.core.simple import plain_records as plain_records
from rmqserver.core.simple import record_starts as record_starts
from rmqserver.core.simple import seconds_since as seconds_since
from rmqserver.core.simple import serve_ready as serve_ready
from rmqserver.core.simple import take_wanted as take_wanted

try:
    _native = import_module("rmqserver.core._core")
except ImportError:  # installed without a C compiler
    IS_NATIVE = False
else:
    IS_NATIVE = _native.CONTRACT == simple.CONTRACT  # else it was built from older sources
if IS_NATIVE:  # in place of those of the same name
    globals().update({name: value for name, value in vars(_native).items() if callable(value)})

NAME = "native" if IS_NATIVE else "python"
"""As the ready line and `doctor` say it."""
