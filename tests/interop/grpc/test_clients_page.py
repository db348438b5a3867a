"""The programs of the clients' page run as they stand, but for the broker's address and the names."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.support import servers
from tests.support.servers import Server, topic_config

from ..apache import SHORT_LIVED, compile_java
from ..programs import tool
from .test_grpc_clients import HERE, TIMEOUT_S, java_jars, node_command, python_command

pytestmark = pytest.mark.interop

PAGE = HERE.parents[2] / "docs/grpc-clients.md"
server = servers.of_module()


def run_python(program: str, folder: Path) -> list[str]:
    (folder / "orders.py").write_text(program)
    return [python_command(folder)[0], str(folder / "orders.py")]


def run_java(program: str, folder: Path) -> list[str]:
    source = folder / "Orders.java"
    source.write_text(program)
    compile_java([source], folder, java_jars())
    return [tool("java"), *SHORT_LIVED, f"-Duser.home={folder}", "-cp", f"{java_jars()}/*:{folder}", "Orders"]


def run_go(program: str, folder: Path) -> list[str]:
    (folder / "main.go").write_text(program)
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go" / name, folder)
    return [tool("go"), "run", "-mod=readonly", "-buildvcs=false", "."]


def run_js(program: str, folder: Path) -> list[str]:
    (folder / "orders.js").write_text(program)
    return [*node_command(folder)[:1], str(folder / "orders.js")]


RUNS: dict[str, Callable[[str, Path], list[str]]] = {
    "python": run_python, "java": run_java, "go": run_go, "js": run_js,
}  # fmt: skip


@pytest.mark.parametrize("language", RUNS)
def test_a_program_of_the_page(language: str, server: Server, tmp_path: Path) -> None:
    topic, group = f"Orders-{language}", f"Billing-{language}"
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic))
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    (program,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for stands, ours in (("127.0.0.1:8081", server.broker_addr), ("Orders", topic), ("Billing", group)):
        program = re.sub(rf"(['\"]){re.escape(stands)}\1", rf"\g<1>{ours}\1", program)
    packages = Path(node_command(tmp_path)[1]).parent / "node_modules" if language == "js" else ""
    done = subprocess.run(
        RUNS[language](program, tmp_path), cwd=tmp_path, env={**os.environ, "NODE_PATH": str(packages)},
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"^(b')?order 1'?$", done.stdout, re.MULTILINE), done.stdout + done.stderr
