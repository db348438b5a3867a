"""The syntax of source files, for tests that read them."""

import ast
import gc
from pathlib import Path


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file. The garbage collector waits meanwhile: in a process with many objects it would look at
    all of them again and again, while none of a tree's is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        if was_on:
            gc.enable()
