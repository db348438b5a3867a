"""An archive of Spark's classes, which Java maps into memory at its start. Loading and checking some 15,000 classes
from jars is half the cost of a session's start. Java writes the archive when the first session ends, and uses it only
if it fits."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """``path`` is the archive's place; ``fresh_path`` is where this process writes a new one."""

    path: Path
    fresh_path: Path

    @property
    def is_made(self) -> bool:
        return self.path.is_file()

    @property
    def java_option(self) -> str:
        return f"-XX:SharedArchiveFile={self.path}" if self.is_made else f"-XX:ArchiveClassesAtExit={self.fresh_path}"

    def keep(self) -> None:
        """Moves the new archive into place for the next start. Call it once the JVM has ended. Two JVMs that end
        together write the same archive."""
        if self.fresh_path.is_file():
            self.fresh_path.replace(self.path)


def class_archive(java_home: str, spark_home: str, cache: Path) -> ClassArchive | None:
    """The archive for a Java and a Spark, below ``cache``. Each version of either has its own archive. None if
    ``cache`` cannot be written, or its path contains a blank, which Java's options do not allow."""
    folder = cache / "rmqadmin" / "spark-classes"
    try:
        java = os.stat(os.path.join(java_home, "bin", "java"))
        jars = os.stat(os.path.join(spark_home, "jars"))
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK) or len(str(folder).split()) != 1:
        return None
    parts = (os.path.realpath(java_home), java.st_size, java.st_mtime_ns, spark_home, jars.st_mtime_ns)
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    _remove_left_over(folder)
    return ClassArchive(folder / f"{name}.jsa", folder / f"{name}.{os.getpid()}")


def _remove_left_over(folder: Path) -> None:
    """Removes what the JVMs of killed processes wrote: nobody moves it into place, nor knows whether it is whole."""
    for file in folder.iterdir():
        pid = file.suffix.removeprefix(".")
        if pid.isdigit() and not _is_running(int(pid)):
            with suppress(OSError):
                file.unlink()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or no process id at all
        return True
    return True
