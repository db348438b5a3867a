"""A plugin of pytest (``-p tests.support.checked_core``): the native core is the one at CHECKED_CORE, built with gcc's
checks of addresses and for undefined behaviour, whose libraries were loaded before Python. What the tests start has the
usual core, and no such libraries."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

CORE = os.environ.pop("CHECKED_CORE")


class CheckedCore:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, CORE) if name == "rmqserver.core._core" else None


sys.meta_path.insert(0, CheckedCore)
for _name in ("LD_PRELOAD", "PYTHONMALLOC"):
    os.environ.pop(_name, None)
