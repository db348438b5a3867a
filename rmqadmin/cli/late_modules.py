"""Modules of the standard library that a package imports at its top, but that few runs use: they are loaded on first
use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class LateModule(ModuleType):
    """Stands for a module until an attribute is asked for. Any thread may be the first to ask: the import has a
    lock."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def late_modules(*names: str) -> Iterator[None]:
    """Modules that are imported within get stand-ins for the modules ``names``, except for those that are there
    already. Imports that come later get the modules themselves."""
    stand_ins = {name: LateModule(name) for name in names if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
