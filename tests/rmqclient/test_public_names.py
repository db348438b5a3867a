"""What users import, and the programs of the client's pages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmqclient
from tests.support import servers
from tests.support.quick import first_is_quick, in_one_test
from tests.support.servers import Server


@in_one_test(*rmqclient.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rmqclient, name) is not None
    assert name in dir(rmqclient)


def test_type_checkers_see_the_same_names() -> None:
    """Type checkers read the imports under TYPE_CHECKING; programs use the table."""
    tree = ast.parse(Path(rmqclient.__file__).read_text())
    seen = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen - {None} == set(rmqclient.__all__)


def test_a_name_that_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        _ = rmqclient.NoSuchThing


def test_the_package_alone_costs_no_trio() -> None:
    code = "import rmqclient, sys; print('trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


ROOT = Path(__file__).parent.parent.parent
PAGE = "".join(
    (ROOT / f"docs/client{part}.md").read_text() for part in ("", "-sending", "-consuming", "-duplicates", "-lite")
)
EXAMPLE = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```\n\n^```text\n(.*?)^```\n", re.M | re.S)
EXAMPLES = {title: (program, printed) for title, program, printed in EXAMPLE.findall(PAGE)}
TIMEOUT_S = 120
QUICK_COUNT = 3


@pytest.fixture(scope="module")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all pages: the first program creates topics that others use. It has the settings that a page
    says, and no others."""
    (settings,) = re.findall(r"^rmqserver standalone (--set .*)", PAGE, re.M)
    with servers.standalone(tmp_path_factory.mktemp("page"), *settings.split()) as running:
        run(running, EXAMPLES["Topics"][0])
        yield running


def test_every_program_says_what_it_prints() -> None:
    assert PAGE.count("```python") == len(EXAMPLES) == PAGE.count("\n## ")


@pytest.mark.parametrize("title", first_is_quick(EXAMPLES, count=QUICK_COUNT))
def test_a_program_prints_what_the_page_says(page_server: Server, title: str) -> None:
    if "Deduplication" in EXAMPLES[title][0]:
        pytest.importorskip("sqlite3", reason="a Python that was built without SQLite", exc_type=ImportError)
    program, printed = EXAMPLES[title]
    assert run(page_server, program) == printed


def run(server: Server, program: str) -> str:
    program = program.replace("127.0.0.1:9876", server.namesrv_addr)
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout
