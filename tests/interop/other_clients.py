"""Clients other than the Java client of the release. Each is a program that speaks the JSON lines of ``client.Client``.

``go``: rocketmq-client-go v2.1.2; ``node``: ali-ons 3.12.0; ``java4``: the Java client 4.9.8, for which the witness of
the release is compiled again. Each is built into the cache on first use. A missing tool is an error that names it.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .apache import HERE, OPENS, SHORT_LIVED, compile_java, maven_jars
from .cache import built
from .client import Client
from .programs import tool

BUILD_TIMEOUT_S = 600
JAVA4_VERSION = "4.9.8"


def start(name: str, namesrv_addr: str, home: Path) -> Client:
    """Starts one of ``COMMANDS`` against a nameserver, with its files under ``home``. The caller closes it."""
    return Client(COMMANDS[name](namesrv_addr, home), home)


def go_command(namesrv_addr: str, home: Path) -> list[str]:
    return [str(go_program("go", "witness")), namesrv_addr]


def go_program(name: str, module: str) -> Path:
    """Builds the Go module in a folder beside this file, and returns the program's path."""
    path = HERE / name
    sources = [*sorted(path.glob("*.go")), path / "go.mod", path / "go.sum"]

    def build(folder: Path) -> None:
        _run([tool("go"), "build", "-mod=readonly", "-buildvcs=false", "-o", str(folder / module), "."], path)

    return built(name.replace("/", "-"), sources, build) / module


def node_command(namesrv_addr: str, home: Path) -> list[str]:
    sources = [HERE / "node" / name for name in ("witness.js", "package.json", "package-lock.json")]

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        _run([tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], folder)

    return [tool("node"), str(built("node", sources, install) / "witness.js"), namesrv_addr]


def java4_command(namesrv_addr: str, home: Path) -> list[str]:
    """Compiles the witness of the release without its admin calls, and with the old names of packages that 5.0
    renamed."""
    jars = maven_jars(JAVA4_VERSION, HERE / "java4/pom.xml", f"-Drocketmq.version={JAVA4_VERSION}")
    sources = [
        HERE / "java" / f"{name}.java"
        for name in ("Call", "Consumers", "Producers", "RequestReply", "Signing", "Witness")
    ]
    sources += [HERE / "java4" / name for name in ("Popping.java", "Reads.java")]

    def compile_(folder: Path) -> None:
        old = [folder / source.name for source in sources]
        for source, copy in zip(sources, old, strict=True):
            copy.write_text(source.read_text().replace("rocketmq.remoting.protocol.", "rocketmq.common.protocol."))
        compile_java(old, folder, jars)

    return [
        tool("java"), "-Xms128m", "-Xmx256m", *SHORT_LIVED, *OPENS, "-Djava.net.preferIPv4Stack=true",
        f"-Duser.home={home}", f"-Drocketmq.client.logRoot={home}/logs",
        "-Drocketmq.client.rebalance.waitInterval=1000",
        "-cp", f"{jars}/*:{built('classes-4', sources, compile_)}", "Witness", namesrv_addr,
    ]  # fmt: skip


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr, timeout=BUILD_TIMEOUT_S)


COMMANDS: dict[str, Callable[[str, Path], list[str]]] = {"go": go_command, "node": node_command, "java4": java4_command}
