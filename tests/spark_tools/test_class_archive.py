import os
import subprocess
from pathlib import Path

import pytest

from spark_tools.class_archive import ClassArchive, class_archive


@pytest.fixture
def homes(tmp_path: Path) -> tuple[str, str]:
    for path in ("java/bin", "spark/jars"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "java/bin/java").write_text("java")
    return str(tmp_path / "java"), str(tmp_path / "spark")


def made(homes: tuple[str, str], cache: Path) -> ClassArchive:
    found = class_archive(*homes, cache)
    assert found is not None
    return found


def test_the_first_session_writes_it_and_the_next_ones_use_it(homes: tuple[str, str], tmp_path: Path) -> None:
    first = made(homes, tmp_path / "cache")
    assert first.java_option == f"-XX:ArchiveClassesAtExit={first.fresh_path}"
    first.keep()
    assert not first.is_made, "the JVM was killed before it had written anything"
    first.fresh_path.write_bytes(b"classes")
    first.keep()
    again = made(homes, tmp_path / "cache")
    assert again.java_option == f"-XX:SharedArchiveFile={first.path}"
    assert not first.fresh_path.exists()


def test_what_a_killed_session_left_is_removed_by_the_next(homes: tuple[str, str], tmp_path: Path) -> None:
    """Java writes its 130 MB even if the process that started it is gone. Each kill of a first session left one."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    running = made(homes, tmp_path).fresh_path
    left = running.with_suffix(f".{ended.pid}")
    for file in (left, running):
        file.write_bytes(b"classes")
    made(homes, tmp_path)
    assert (left.exists(), running.exists()) == (False, True)


def test_another_java_or_spark_has_another(homes: tuple[str, str], tmp_path: Path) -> None:
    before = made(homes, tmp_path).path
    os.utime(f"{homes[0]}/bin/java", ns=(1, 1))
    other_java = made(homes, tmp_path).path
    os.utime(f"{homes[1]}/jars", ns=(1, 1))
    assert len({before, other_java, made(homes, tmp_path).path}) == 3


def test_where_none_can_be_kept_spark_starts_without(homes: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert class_archive(*homes, tmp_path / "file") is None
    assert class_archive(*homes, tmp_path / "with blank") is None
    assert class_archive("/no/java", homes[1], tmp_path) is None
