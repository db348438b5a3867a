"""Types that several threads may have msgspec decode at once.

msgspec (0.22) looks at a Struct's fields when it is first decoded. Where these are Structs too, that runs Python, so
that another thread may have its turn: it gets what is half made, and ends the process by SIGSEGV. On a busy machine
`rmqadmin diff`, whose threads ask several brokers, ended so. Each type is therefore looked at under a lock beforehand.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_whole: set[Any] = set()
_lock = Lock()


def whole(type: type[T]) -> type[T]:
    """The type, all of which msgspec knows now."""
    if type not in _whole:
        with _lock:
            msgspec.json.Decoder(type)
            _whole.add(type)
    return type
