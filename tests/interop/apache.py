"""A real Apache RocketMQ 5.5.0 on loopback, from the jars on Maven Central: nameserver, broker, and Java programs.

The jars (about 80 MB) are resolved once into a cache directory, ``$RMQADMIN_INTEROP_CACHE`` or
``~/.cache/rmqadmin/interop``; later runs need no network.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from rmqproto.codes import RequestCode
from tests.support.processes import end, free_ports, start_server, wait_until_ready
from tests.support.wire import Wire

from .cache import built, locked
from .programs import tool

VERSION = "5.5.0"
HERE = Path(__file__).parent
READY_TIMEOUT_S = 120  # 5 s on an idle machine
RESOLVE_TIMEOUT_S = 900
COMPILE_TIMEOUT_S = 120

# Packages that the shipped start scripts open for the broker's memory-mapped files.
OPENS = [
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.nio", "sun.nio.ch", "jdk.internal.ref")
    ),
    *(f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in ("sun.nio.ch", "jdk.internal.ref")),
]
# No process here lives long enough for the second compiler to pay off.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

BROKER_JVM = ("-Xms512m", "-Xmx512m", *SHORT_LIVED, "-XX:MaxDirectMemorySize=512m")
BENCHMARK_BROKER_JVM = ("-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=2g")
"""The options of Apache's own start script, except for the heap size. Benchmarked brokers get no QUIET settings."""

QUIET_JVM = ("-Dtls.server.mode=disabled",)
"""With TLS each of Apache's servers makes a key and a certificate as it starts, which takes 3.5 s of CPU. No test
speaks TLS to them."""

QUIET = {
    # Until this time has passed once, a thread polls the clock without a pause: 10 s of CPU.
    "transactionMetricFlushInterval": "200",
    # Each time, the whole wheel is copied byte by byte. At the usual interval of a second that takes a quarter of a
    # CPU.
    "timerFlushIntervalMs": "60000",
    # So long after the end of its last transaction, a thread begins to look for more without a pause: half a CPU.
    "transactionOpBatchInterval": "3600000",
    "transactionOpMsgMaxSize": "1",  # and not only after that time is it noted what has ended
}
"""Entries of broker.conf that save CPU and change nothing else. A test's own settings override them."""


def jars() -> Path:
    """The folder with the jars of the release. Maven resolves them on first use and whenever ``pom.xml`` changes."""
    return maven_jars(VERSION, HERE / "pom.xml", f"-Drocketmq.version={VERSION}")


def maven_jars(version: str, pom: Path, *options: str) -> Path:
    """The folder with the jars that a pom asks for."""

    def resolve(folder: Path) -> None:
        subprocess.run(
            [tool("mvn"), "-q", "-B", "-f", str(pom), *options,
             "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
             "-DincludeScope=runtime", f"-DoutputDirectory={folder}"],
            check=True, stdout=sys.stderr, timeout=RESOLVE_TIMEOUT_S,
        )  # fmt: skip

    with locked("maven"):  # Maven's repository in the home folder does not bear two processes at a time
        return built(f"jars-{version}", [pom], resolve)


def classes() -> Path:
    """The folder with our own Java programs (``java/*.java``), compiled whenever their text changes."""
    sources = sorted((HERE / "java").glob("*.java"))
    return built(f"classes-{VERSION}", sources, lambda folder: compile_java(sources, folder, jars()))


def compile_java(sources: Iterable[Path], folder: Path, *jars: Path) -> None:
    """Compiles into ``folder``; ``jars`` are folders of jars."""
    class_path = ":".join(f"{each}/*" for each in jars)
    subprocess.run(
        [tool("javac"), "-nowarn", "-Xlint:none", "-encoding", "UTF-8", "-d", str(folder), "-cp", class_path,
         *map(str, sources)],
        check=True, timeout=COMPILE_TIMEOUT_S,
    )  # fmt: skip


def archives() -> Path | None:
    """The folder with archives of the classes that the servers load, for each JVM to map at its start. They save a
    third of the CPU of a start. None if Java does not say its version in a file. The first call on a machine starts and
    stops both servers to record them."""
    release = Path(tool("java")).resolve().parents[1] / "release"
    if not release.is_file():
        return None

    def record(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as work, ApacheRocketMQ(Path(work), {}, record=folder) as running:
            running.stop()

    return built(f"archives-{classes().name}", [HERE / "pom.xml", release], record)


def java_command(
    home: Path,
    main: str,
    *args: str,
    jvm: tuple[str, ...] = ("-Xms128m", "-Xmx128m", *SHORT_LIVED),
    logback: str = "client",
    options: tuple[str, ...] = (),
    own_jars: Path | None = None,
    before: str = "",
) -> list[str]:
    """The command line of one Java class, of the release or of ours. ``own_jars`` is the folder of another release's
    jars. ``before`` is a class path that is searched first. Logs and offset files go under ``home``, temporary files
    to the folder of this process's own, because a killed broker leaves 12 MB there."""
    class_path = f"{jars()}/*:{classes()}" if own_jars is None else f"{own_jars}/*"
    if before:
        class_path = f"{before}:{class_path}"
    return [
        tool("java"), *jvm, "-Djava.net.preferIPv4Stack=true", *OPENS,
        f"-Djava.io.tmpdir={tempfile.gettempdir()}",
        f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", f"-Drocketmq.log.root={home}/logs",
        f"-Drmq.logback.configurationFile=rmq.{logback}.logback.xml", *options,
        "-cp", class_path, main, *args,
    ]  # fmt: skip


class ApacheRocketMQ:
    """A real nameserver and broker, started on entry and ended on exit.

    ``settings`` are entries of broker.conf; ``ports`` are those of nameserver and broker. On exit the broker is killed,
    because its clean stop takes 14 s. To use the store afterwards, call ``stop`` or ``kill`` first.
    """

    name = "apache"

    def __init__(
        self,
        work: Path,
        settings: Mapping[str, str],
        *,
        store_dir: Path | None = None,
        ports: tuple[int, int] | None = None,
        broker_jvm: tuple[str, ...] = BROKER_JVM,
        broker_jars: Path | None = None,
        record: Path | None = None,
    ):
        """``broker_jars``: the folder of another release's jars, for the broker. ``record``: the folder in which the
        servers write archives of their classes as they stop, for ``archives``."""
        self._broker_jvm, self._broker_jars = broker_jvm, broker_jars
        self._is_quiet = broker_jvm != BENCHMARK_BROKER_JVM
        self._record = record
        self.work = work
        self.store_dir = store_dir or work / "store"
        self.ports = ports or free_ports()
        self.namesrv_addr, self.broker_addr = (f"127.0.0.1:{port}" for port in self.ports)
        self.settings = {
            **(QUIET if self._is_quiet else {}),
            **settings,
            "listenPort": str(self.ports[1]),
            "haListenPort": str(self.ports[1] + 1),
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": self.namesrv_addr,
            "storePathRootDir": str(self.store_dir),
            "storePathCommitLog": str(self.store_dir / "commitlog"),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.work.mkdir(parents=True, exist_ok=True)
        namesrv = {"listenPort": str(self.ports[0]), "kvConfigPath": str(self.work / "kvConfig.json")}
        try:
            self._start("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", namesrv, "Name Server boot success")
            self._start("broker", "org.apache.rocketmq.broker.BrokerStartup", self.settings, "boot success")
            self._register()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def stop(self) -> None:
        """Sends SIGTERM to both: the broker flushes and leaves no ``abort`` file."""
        while self._processes:
            _, process = self._processes.popitem()
            end(process)

    def kill(self) -> None:
        """Sends SIGKILL to the broker, then stops the nameserver."""
        if broker := self._processes.pop("broker", None):
            end(broker, signal.SIGKILL)
        self.stop()

    @property
    def broker_pid(self) -> int:
        return self._processes["broker"].pid

    @property
    def pids(self) -> list[int]:
        """The process ids of nameserver and broker."""
        return [process.pid for process in self._processes.values()]

    def _register(self) -> None:
        """Waits until the nameserver knows the broker. A broker that starts before its connection to the nameserver is
        there registers only 10 s later, unless its permissions are set."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        with Wire(self.namesrv_addr) as namesrv, Wire(self.broker_addr) as broker:
            while not namesrv.cluster_addrs():
                if time.monotonic() > deadline:
                    raise RuntimeError(f"Apache's broker has not registered after {READY_TIMEOUT_S} s")
                broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6\n")

    def _archive_options(self, name: str) -> list[str]:
        if self._record is not None:
            return ["-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={self._record / name}.jsa"]
        folder = archives()
        archive = None if folder is None else folder / f"{name}.jsa"
        return [f"-XX:SharedArchiveFile={archive}"] if archive is not None and archive.is_file() else []

    def _start(self, name: str, main: str, settings: Mapping[str, str], ready: str) -> None:
        conf, log = self.work / f"{name}.conf", self.work / f"{name}.out"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        jvm = self._broker_jvm if name == "broker" else ("-Xms128m", "-Xmx128m", *SHORT_LIVED)
        jvm += (*QUIET_JVM, *self._archive_options(name)) if self._is_quiet else ()
        own_jars = self._broker_jars if name == "broker" else None
        command = java_command(self.work, main, "-c", str(conf), jvm=jvm, logback=name, own_jars=own_jars)
        process = start_server(command, log, {"ROCKETMQ_HOME": str(self.work)})
        self._processes[name] = process
        wait_until_ready(
            f"Apache {name}", process, log, lambda: ready in log.read_text(errors="replace"), READY_TIMEOUT_S
        )


class ApacheBroker(ApacheRocketMQ):
    """A broker alone, at another system's nameserver: a slave, or a member of a set. ``kill`` it, and ``start`` it
    again."""

    def __init__(
        self,
        work: Path,
        settings: Mapping[str, str],
        namesrv_addr: str,
        *,
        ports: tuple[int, int] | None = None,
        broker_jvm: tuple[str, ...] = BROKER_JVM,
    ):
        super().__init__(work, {**settings, "brokerIP2": "127.0.0.1"}, ports=ports, broker_jvm=broker_jvm)
        self.settings["namesrvAddr"] = namesrv_addr

    def __enter__(self) -> ApacheBroker:
        self.start()
        return self

    def start(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "broker.out").unlink(missing_ok=True)  # it still says that the last start went well
        self._start("broker", "org.apache.rocketmq.broker.BrokerStartup", self.settings, "boot success")
