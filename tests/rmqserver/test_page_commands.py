"""The server commands of the documentation pages, run as they stand except for ports: each server gets ready, and ends
cleanly."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.errors import RocketMQError
from tests.support.broker_set import is_settled
from tests.support.certificates import Authority
from tests.support.servers import Server, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md", "docs/testing.md", "docs/metrics.md", "docs/users.md", "docs/tls.md", "docs/brokers.md",
    "docs/client-lite.md", "docs/grpc.md", "docs/grpc-clients.md",
]  # fmt: skip
OF_SEVERAL_SERVERS = "docs/replication.md"
OF_A_CONTROLLER = "docs/controller.md"
"""The test of this page is ``tests/rmqadmin/pages/test_controller_page.py``."""
ANY_PORTS = ["--namesrv-port", "0", "--port", "0"]
"""Added last, because the last of two equal options counts."""


def blocks(page: str, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return [block for language, block in found if language in languages]


LINES = [
    pytest.param(page, line, id=f"{page}: {line}")
    for page in PAGES
    for block in blocks(page, "sh", "")
    for line in block.splitlines()
    if line.startswith("rmqserver ")
]


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_server_starts_as_the_page_says(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (seed,) = blocks("docs/testing.md", "yaml")
    Path("seed.yaml").write_text(seed)
    if "server.pem" in line:
        Authority(tmp_path).sign("server")  # server.pem, server.key
    if "/opt/rocketmq" in line:
        (tmp_path / "conf").mkdir()
        accounts = "accounts:\n- accessKey: the-reader\n  secretKey: '12345678'\n"
        (tmp_path / "conf" / "plain_acl.yml").write_text(accounts)
    meant = line.replace("--metrics-port 5557", "--metrics-port 0").replace("/opt/rocketmq", str(tmp_path))
    words = shlex.split(meant, comments=True)[1:]
    with Server(*words, *ANY_PORTS, log_file=tmp_path / "log") as server:
        assert server.ready["broker_addr"]
        assert "--ready-file" not in words or Path("ready.json").exists()
        assert ("--data" in words) == Path("store").exists()
        assert server.stop() == 0


def test_every_page_that_starts_a_server_is_tried() -> None:
    pages = {"README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))}
    pages -= {page for page in pages if page.startswith("docs/cn/")}  # have the commands of the English pages
    starting = {page for page in pages for block in blocks(page, "sh", "") if re.search(r"^rmqserver ", block, re.M)}
    assert starting == {*PAGES, OF_SEVERAL_SERVERS, OF_A_CONTROLLER}


def test_three_machines_do_as_the_page_says(tmp_path: Path) -> None:
    """Each machine is a loopback address, so the ports are those of the page. First the master hands over, then it is
    killed, and then a disk is lost."""
    net = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}."
    (block,) = (each for each in blocks(OF_SEVERAL_SERVERS, "text") if "rmqserver broker" in each)
    lines = block.replace("\\\n", " ").replace("10.0.0.", net).splitlines()
    namesrv, controller, broker = (line.split()[1:] for line in lines if line.startswith("rmqserver"))
    looks, hands_over = (line.split()[1:] for line in lines if line.startswith("rmqadmin"))
    name, queue = "broker-a", MessageQueue("Kept", "broker-a", 0)
    running: dict[str, Server] = {}

    def start(number: int) -> None:
        addr = f"{net}{number}"
        words = ["--listen", addr, "--data", str(tmp_path / addr)]
        running[f"{addr}:10911"] = stack.enter_context(Server(*broker, *words, log_file=tmp_path / f"{addr}.log"))

    with ExitStack() as stack:
        stack.enter_context(Server(*namesrv, log_file=tmp_path / "namesrv.log"))
        words = ["--data", str(tmp_path / "controller")]
        stack.enter_context(Server(*controller, *words, log_file=tmp_path / "controller.log"))
        admin = stack.enter_context(AdminClient(f"{net}1:9876", timeout_s=60))

        def known() -> ReplicaSet:
            return admin.replica_sets(f"{net}1:9878", [name]).replicas_info_table[name]

        def are_in_sync() -> bool:
            return {one.broker_address for one in known().in_sync_replicas} == set(running)

        def takes(addr: str | None) -> bool:
            try:
                return addr is not None and admin.send_message(addr, queue, Message("Kept", b"?")).status is told
            except RocketMQError:
                return False

        told = SendStatus.SEND_OK
        for number in (1, 2, 3):
            start(number)
        until(are_in_sync)
        until(lambda: is_settled(admin, f"{net}1:9878"))
        for words in (looks, hands_over):
            subprocess.run([sys.executable, "-m", "rmqadmin", "--context", "none", *words], check=True)
        assert known().master_broker_id == 2
        until(are_in_sync)
        master = known().master_address or ""
        until(lambda: takes(master))
        assert admin.send_message(master, queue, Message("Kept", b"kept")).status is told
        end = admin.max_offset(master, "Kept", 0)
        running[master].stop(signal.SIGKILL)
        until(lambda: known().master_address not in (None, master) and takes(known().master_address))
        start(int(master.partition(":")[0].rpartition(".")[2]))
        until(are_in_sync)
        lost = next(addr for addr in running if addr != known().master_address)
        running[lost].stop(signal.SIGKILL)
        host = lost.partition(":")[0]
        shutil.rmtree(tmp_path / host)
        start(int(host.rpartition(".")[2]))
        until(are_in_sync)
        assert [one.broker_id for one in known().in_sync_replicas if one.broker_address == lost] == [4]
        admin.clean_broker_data(
            f"{net}1:9878", name, 0, broker_ids=[one.broker_id for one in known().not_in_sync_replicas]
        )
        assert len(known().in_sync_replicas) == 3
        assert known().not_in_sync_replicas == []
        found = admin.pull_message(known().master_address or "", queue, end - 1).messages
        assert found[0].body == b"kept"


def test_a_master_and_its_slave_start_as_the_page_says(tmp_path: Path) -> None:
    (block,) = (each for each in blocks(OF_SEVERAL_SERVERS, "sh") if "rmqserver broker" in each)
    lines = block.replace("\\\n", " ").replace("/data/", f"{tmp_path}/").splitlines()
    namesrv_words, master_words, slave_words = (shlex.split(line)[1:] for line in lines if line.startswith("rmqserver"))
    with Server(*namesrv_words, "--port", "0", log_file=tmp_path / "namesrv.log") as namesrv:
        place = ["--namesrv", namesrv.namesrv_addr, "--port", "0"]
        with (
            Server(*master_words, *place, log_file=tmp_path / "master.log") as master,
            Server(*slave_words, *place, log_file=tmp_path / "slave.log"),
            AdminClient(namesrv.namesrv_addr) as admin,
        ):
            until(lambda: admin.ha_status(master.broker_addr).in_sync_slave_nums == 1)
