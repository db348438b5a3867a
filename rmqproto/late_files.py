"""Packages whose files are loaded on first use, not with the package (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def late_files(package: str) -> Callable[[str], ModuleType]:
    """A package's ``__getattr__``, which loads the file of that name. It is called once per file, because a loaded file
    is an attribute of its package."""

    def load(name: str) -> ModuleType:
        file = f"{package}.{name}"
        try:
            return import_module(file)
        except ModuleNotFoundError as error:
            if error.name != file:
                raise
            raise AttributeError(f"{package} has no file {name}") from None

    return load
