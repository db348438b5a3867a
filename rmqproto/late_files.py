"""Packages whose files are loaded when they are named, not when the package is (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def late_files(package: str) -> Callable[[str], ModuleType]:
    """For a package's ``__getattr__``: the file of that name. It is asked once a file, because a loaded one is an
    attribute of its package."""

    def load(name: str) -> ModuleType:
        file = f"{package}.{name}"
        try:
            return import_module(file)
        except ModuleNotFoundError as error:
            if error.name != file:
                raise
            raise AttributeError(f"{package} has no file {name}") from None

    return load
