"""The files and commands of ``docs/controller-quorum.md`` make a group of three controllers and a set of three brokers,
as they stand. Each machine is a loopback address, so the ports are those of the page."""

import os
import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.errors import RocketMQError
from tests.support.processes import end, start_server
from tests.support.servers import Server, until

from ..etcd import etcd_program

pytestmark = pytest.mark.interop

PAGE = Path(__file__).parents[3] / "docs/controller-quorum.md"
NET = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}."


def test_three_machines_start_as_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text().replace("\\\n", " ")
    controller, broker = (shlex.split(line) for line in re.findall(r"^rmqserver (.*)", page, re.MULTILINE))
    variables = re.findall(r"^(ETCD_\w+)=(.*)", page, re.MULTILINE)
    assert len(variables) == 9

    def here(number: int, word: str) -> str:
        """A word of the page's machine, which has the number 1, at another one. Lists of machines stay as they are."""
        own = word if "10.0.0.1" in word else word.replace("10.0.0.2", f"10.0.0.{number + 1}")
        own = re.sub(r"^(m|controllerDLegerSelfId=n)1$", rf"\g<1>{number}", own)
        return own.replace("10.0.0.", NET).replace("/data/", f"{tmp_path}/{number}/")

    with ExitStack() as stack:
        for number in range(3):
            (tmp_path / str(number)).mkdir()
            env = {name: here(number, value) for name, value in variables}
            stack.callback(end, start_server([str(etcd_program())], tmp_path / f"etcd-{number}.log", env))
        for number in range(3):
            words = [here(number, word) for word in controller]
            stack.enter_context(Server(*words, log_file=tmp_path / f"controller-{number}.log"))
        stack.enter_context(Server("namesrv", "--listen", f"{NET}1", log_file=tmp_path / "namesrv.log"))
        for number in range(3):
            words = [here(number, word) for word in broker]
            stack.enter_context(Server(*words, log_file=tmp_path / f"broker-{number}.log"))
        admin = stack.enter_context(AdminClient(f"{NET}1:9876", timeout_s=30))

        def in_sync(addr: str) -> int:
            try:
                leader = admin.controller_metadata(addr).controller_leader_address or ""
                return len(admin.replica_sets(leader, ["broker-a"]).replicas_info_table["broker-a"].in_sync_replicas)
            except (RocketMQError, KeyError):
                return 0

        until(lambda: {in_sync(f"{NET}{number + 1}:9878") for number in range(3)} == {3})
