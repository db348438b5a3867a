"""The compressions whose libraries are installed: zlib, and what the extra ``compression`` brings."""

from rmqproto.errors import UsageError
from rmqproto.message.compression import check_compression
from rmqproto.message.sys_flag import COMPRESSIONS, compression_of


def _is_there(kind: str) -> bool:
    try:
        check_compression(kind, 5)
    except UsageError:
        return False
    return True


KINDS = tuple(kind for kind in COMPRESSIONS if _is_there(kind))


def can_read(sys_flag: int) -> bool:
    return compression_of(sys_flag) in (None, *KINDS)
