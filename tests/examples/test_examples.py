"""Each program of ``examples/`` prints what ``docs/examples.md`` says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/examples.md").read_text()
PRINTED = dict(re.findall(r"^## .*?\(\.\./(examples/\w+\.py)\).*?^```text\n(.*?)^```$", PAGE, re.M | re.S))


server = servers.of_module(*servers.sets("transactionCheckInterval=100", "transactionTimeOut=100"))


def test_the_page_names_all_programs() -> None:
    programs = {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    assert programs == PRINTED.keys()


@pytest.mark.parametrize("program", first_is_quick(sorted(PRINTED), 2))
def test_a_program_prints_what_the_page_says(program: str, server: Server) -> None:
    if "sqlite3" in (ROOT / program).read_text():
        pytest.importorskip("sqlite3", reason="a Python that was built without SQLite", exc_type=ImportError)
    command = [sys.executable, "-W", "error", program, server.namesrv_addr]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, PRINTED[program]), done.stderr
