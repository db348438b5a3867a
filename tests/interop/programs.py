"""Programs of the machine that the interop tests start."""

import shutil


def tool(name: str) -> str:
    """The path of a program that the interop tests need. A missing one is an error, never a skip."""
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(
            f"`{name}` is not on PATH: the interop tests need a JDK (java, javac; 11 or newer), Maven (mvn), "
            "Go (go; 1.22 or newer) and Node (node, npm; 18 or newer)"
        )
    return path
