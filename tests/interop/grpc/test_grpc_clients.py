"""Apache's clients that speak gRPC, unmodified, against our broker, Apache's with its proxy, and ours behind Apache's
proxy: each plays the same scenes. Java opens TLS, which is its default, and Go as well; Python, Node and Rust come
plain.

Each is built into the cache on first use: Java 5.2.0, Go 5.1.4, Python 5.1.2, Node 1.0.8, Rust 5.0.0. Rust's takes two
to three minutes, and is left out where there is no cargo.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from tests.support import servers
from tests.support.servers import until

from ..apache import SHORT_LIVED, compile_java, maven_jars
from ..apache_proxy import ApacheWithProxy, proxy_before
from ..cache import built
from ..cluster import SETTINGS
from ..other_clients import go_program
from ..programs import tool

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
JAVA_VERSION, PYTHON_CLIENT = "5.2.0", "rocketmq-python-client==5.1.2"
TIMEOUT_S = 240

GOT = {
    "simple": ["one 1", "three 1", "two 1"],
    "tags": ["b 1"],
    "sql": ["b 1"],
    "push": ["one 1", "three 1", "two 1"],
    "retry": ["again 1", "again 2"],
    "fifo": ["0 1", "1 1", "2 1", "3 1", "4 1", "5 1"],
    "delay": ["late 1"],
    "transaction": ["committed 1"],
    "check": ["asked 1"],
}
"""What is consumed in each scene: bodies and attempts."""

TYPES = {"fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION", "check": "TRANSACTION"}


def java_jars() -> Path:
    return maven_jars(f"grpc-{JAVA_VERSION}", HERE / "pom.xml", f"-Drocketmq.version={JAVA_VERSION}")


def java_command(home: Path) -> list[str]:
    jars = java_jars()
    source = HERE / "Scenes.java"
    classes = built("grpc-classes", [source], lambda folder: compile_java([source], folder, jars))
    logs = f"-Drocketmq.log.root={home}"
    return [tool("java"), "-Xmx256m", *SHORT_LIVED, f"-Duser.home={home}", logs, "-cp", f"{jars}/*:{classes}", "Scenes"]


def go_command(home: Path) -> list[str]:
    return [str(go_program("grpc/go", "scenes"))]


def python_command(home: Path) -> list[str]:
    """Its packages are in an environment of their own."""

    def install(folder: Path) -> None:
        for command in (["-m", "venv", str(folder)], ["-m", "pip", "install", "--quiet", PYTHON_CLIENT]):
            program = sys.executable if command[1] == "venv" else str(folder / "bin/python")
            subprocess.run([program, *command], check=True, stdout=sys.stderr, timeout=600)

    return [str(built("grpc-python", [HERE / "__init__.py"], install) / "bin/python"), str(HERE / "scenes.py")]


def node_command(home: Path) -> list[str]:
    sources = [HERE / "node" / name for name in ("scenes.js", "package.json", "package-lock.json")]

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        install = [tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(install, cwd=folder, check=True, stdout=sys.stderr, timeout=600)

    return [tool("node"), str(built("grpc-node", sources, install) / "scenes.js")]


def rust_command(home: Path) -> list[str]:
    cargo = shutil.which("cargo") or pytest.skip("no cargo is on PATH")
    sources = [HERE / "rust" / name for name in ("main.rs", "Cargo.toml")]

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        with tempfile.TemporaryDirectory() as target:  # a gigabyte
            options = ["--quiet", "--debug", "--root", str(folder), "--path", str(folder), "--target-dir", target]
            subprocess.run([cargo, "install", *options], check=True, stdout=sys.stderr, timeout=1800)

    return [str(built("grpc-rust", sources, install) / "bin/scenes")]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "java": java_command, "go": go_command, "python": python_command, "node": node_command, "rust": rust_command,
}  # fmt: skip
PLAYED = [(client, scene) for client in COMMANDS for scene in GOT if client != "rust" or scene not in ("push", "retry")]
"""Rust's client has no push consumer."""


QUICK = {"transactionCheckInterval": "500", "transactionTimeOut": "1000"}
APACHE = {"transactionCheckInterval": "6000", "transactionTimeOut": "1000"}
"""Whether a client has answered does not keep Apache's broker from asking again. If it does before it has noted the
answer, the client commits again, and the message comes twice."""


class Played(NamedTuple):
    namesrv_addr: str
    broker_addr: str
    grpc_addr: str
    is_behind_proxy: bool = False


@pytest.fixture(scope="module", params=["ours", "apache", "ours behind Apache's proxy"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    work = tmp_path_factory.mktemp("grpc")
    if request.param == "apache":
        with ApacheWithProxy(work, SETTINGS | APACHE) as apache:
            yield Played(apache.namesrv_addr, apache.broker_addr, apache.grpc_addr)
        return
    given = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]
    with servers.standalone(work, *given, "--set", "grpcServerPort=0") as ours:
        direct = Played(ours.namesrv_addr, ours.broker_addr, str(ours.ready["grpc_addr"]))
        if request.param == "ours":
            yield direct
            return
        with proxy_before(ours.namesrv_addr, "DefaultCluster", work / "proxy") as grpc_addr:
            yield direct._replace(grpc_addr=grpc_addr, is_behind_proxy=True)


@pytest.mark.parametrize(("client", "scene"), PLAYED)
def test_a_client_plays_a_scene(client: str, scene: str, broker: Played, tmp_path: Path) -> None:
    if broker.is_behind_proxy and scene == "check":
        pytest.skip("a proxy tells brokers of its producers every 20 s, which is later than our last check here")
    topic, group = f"Topic-{client}-{scene}", f"Group-{client}-{scene}"
    config = TopicConfig(
        topic_name=topic, read_queue_nums=2, write_queue_nums=2,
        attributes={"+message.type": TYPES.get(scene, "NORMAL")},
    )  # fmt: skip
    with AdminClient(broker.namesrv_addr) as admin:
        admin.create_topic(broker.broker_addr, config)
        ordered = SubscriptionGroupConfig(group_name=group, consume_message_orderly=scene == "fifo")
        admin.create_group(broker.broker_addr, ordered)
        until(lambda: topic in admin.topic_list())
    command = [*COMMANDS[client](tmp_path), broker.grpc_addr, scene, topic, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    got = [line.removeprefix("got ") for line in done.stdout.splitlines() if line.startswith("got ")]
    assert (got if scene == "fifo" else sorted(got)) == GOT[scene]
