"""A plugin of pytest (``-p tests.support.checked_core``): the native core is the one at CHECKED_CORE, built with gcc's
checks of addresses and for undefined behaviour, whose libraries were loaded before Python. What the tests start has the
usual core, and no such libraries."""

import importlib.util
import os
import sys

NAME = "rmqserver.core._core"

_spec = importlib.util.spec_from_file_location(NAME, os.environ["CHECKED_CORE"])
assert _spec is not None
assert _spec.loader is not None
sys.modules[NAME] = _module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
os.environ.pop("LD_PRELOAD", None)
os.environ.pop("PYTHONMALLOC", None)
