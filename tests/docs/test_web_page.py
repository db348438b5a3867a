"""The programs of ``docs/client-web.md`` run as they stand there, under the servers of their frameworks."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqclient import PullConsumer
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/client-web.md").read_text()
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```$", PAGE, re.M | re.S))
IS_UP = re.compile(r"running on http://", re.I)


@pytest.fixture
def program(server: Server, fresh: Fresh, tmp_path: Path) -> Callable[[str], str]:
    """Writes a program of the page to ``orders.py``, with our broker and a topic of its own, which it returns."""

    def write(title: str) -> str:
        topic = fresh("WebOrders")
        text = PROGRAMS[title].replace("127.0.0.1:9876", server.namesrv_addr).replace("WebOrders", topic)
        (tmp_path / "orders.py").write_text(text)
        return topic

    return write


def bodies_of(server: Server, topic: str) -> list[bytes]:
    with PullConsumer.blocking(server.namesrv_addr, "reader") as reader:
        return sorted(message.body for queue in reader.queues(topic) for message in reader.pull(queue, 0).messages)


@contextmanager
def serving(directory: Path, *command: str) -> Iterator[None]:
    """Runs until the block ends, then as Ctrl+C ends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said = ""
    try:
        while not IS_UP.search(said):
            line = process.stdout.readline()
            assert line, said
            said += line
        yield
    finally:
        process.send_signal(2)
        process.communicate(timeout=60)


def post(port: int, number: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/orders/{number}", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["message_id"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "command"), [("FastAPI", "uvicorn orders:app --port"), ("Flask", "flask --app orders run --port")]
)
def test_a_web_application_sends(
    title: str, command: str, server: Server, program: Callable[[str], str], tmp_path: Path
) -> None:
    module, *rest = command.split()
    pytest.importorskip(title.lower(), reason="the dependency group `web` is not installed (make .venv/.all)")
    topic = program(title)
    port = free_ports()[0]
    with serving(tmp_path, module, *rest, str(port)):
        ids = {post(port, number) for number in ("7", "8")}
    assert len(ids) == 2
    assert bodies_of(server, topic) == [b"7", b"8"]


def test_a_script_sends(server: Server, program: Callable[[str], str], tmp_path: Path) -> None:
    topic = program("A script")
    done = subprocess.run(
        [sys.executable, "orders.py"], input="1\n2\n", cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bodies_of(server, topic) == [b"1", b"2"]
