"""The example of the fixture's page runs as it stands, with Apache's Python client."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .test_grpc_clients import PYTHON_CLIENT, TIMEOUT_S, python_command

pytestmark = pytest.mark.interop

PAGE = Path(__file__).parents[3] / "docs/testing.md"


def test_the_example_of_the_page(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## RocketMQ 5's clients\n")[2].partition("\n## ")[0]
    assert PYTHON_CLIENT.partition("=")[0] in section
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "test_page.py").write_text(example)
    (packages,) = Path(python_command(tmp_path)[0]).parents[1].glob("lib/python*/site-packages")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(packages)}, cwd=tmp_path, capture_output=True, text=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
