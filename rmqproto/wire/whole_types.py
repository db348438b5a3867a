"""Types that several threads may have msgspec decode at once.

msgspec (0.22) examines a Struct's fields when it is first decoded. If these are also Structs, that runs Python code,
and another thread may run meanwhile. That thread gets a half-made description, and the process ends with SIGSEGV. This
happened to `rmqadmin diff`, whose threads ask several brokers, on a busy machine. Each type is therefore examined under
a lock beforehand.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_whole: set[Any] = set()
_lock = Lock()


def whole(type: type[T]) -> type[T]:
    """The type, after msgspec has examined all of it."""
    if type not in _whole:
        with _lock:
            msgspec.json.Decoder(type)
            _whole.add(type)
    return type
