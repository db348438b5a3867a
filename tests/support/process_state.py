"""What a file of tests must leave as it found it: other files run in the same process afterwards, in any order."""

import os
import sys
from collections.abc import Iterator
from types import ModuleType

OURS = ("rmq", "spark_tools", "tests")
"""How the names of our packages begin."""


class ProcessState:
    """The working folder, the environment, and our own modules, as they are now."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._environment = _environment()
        self._modules = _modules()
        self._lost = _lost()

    def changes(self) -> Iterator[str]:
        """What is otherwise now. Modules may have been added, but not taken away again: classes of theirs live on, and
        cannot look up their own annotations."""
        if os.getcwd() != self._folder:
            yield f"the working folder is {os.getcwd()}, not {self._folder}"
        now = _environment()
        for name in sorted({*now, *self._environment}):
            if now.get(name) != self._environment.get(name):
                yield f"{name} is {now.get(name)!r}, not {self._environment.get(name)!r}"
        lost = {name for name, module in self._modules.items() if sys.modules.get(name) is not module}
        for name in sorted((lost | _lost()) - self._lost):
            yield f"the module {name} was loaded again or is gone"


def _modules() -> dict[str, ModuleType]:
    # Copies what a thread of an earlier test may change meanwhile, here and below.
    return {name: module for name, module in list(sys.modules.items()) if name.startswith(OURS)}


def _lost() -> set[str]:
    """Modules that their packages still have, and ``sys.modules`` has not."""
    return {
        value.__name__
        for name, package in _modules().items()
        if "__path__" in vars(package)
        for attribute, value in list(vars(package).items())
        if type(value) is ModuleType  # five times as quick as isinstance
        if sys.modules.get(value.__name__) is not value and value.__name__ == f"{name}.{attribute}"
    }


def _environment() -> dict[str, str]:
    """Without what pytest changes, and without what a Spark session sets, which several files share."""
    return {
        name: value
        for name, value in os.environ.items()
        if "SPARK" not in name and name not in ("JAVA_HOME", "PYTEST_CURRENT_TEST")
    }
