"""The one direction of imports (docs/architecture.md), read from the sources and, where it matters to a user's time,
from what a real process has loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Package -> what it may import of ours. A deeper name is a narrower door.
ARROWS = {
    "rmqproto": set(),
    "rmqclient": {"rmqproto"},
    "rmqserver/store": {"rmqproto", "rmqserver.store"},
    "rmqserver": {"rmqproto", "rmqclient", "rmqserver"},
    "rmqadmin": {"rmqproto", "rmqclient", "rmqserver.store", "spark_tools", "rmqadmin"},
    "spark_tools": {"rmqproto", "rmqclient", "rmqserver.store", "spark_tools"},
}
OURS = {"rmqproto", "rmqclient", "rmqserver", "rmqadmin", "spark_tools", "quickstart", "bench", "tests"}

# Package -> modules of others that must not be imported there at all.
FORBIDDEN = {
    "rmqproto": {"trio", "socket", "ssl", "asyncio", "typer", "rich", "textual", "pyspark"},
    "rmqserver/store": {"trio", "socket", "typer", "rich", "textual", "pyspark"},
    "rmqserver": {"typer", "rich", "textual", "pyspark", "asyncio"},
    "rmqclient": {"typer", "rich", "textual", "pyspark", "asyncio"},
}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def sources_of(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    if package == "rmqserver":
        files = [file for file in files if (ROOT / "rmqserver/store") not in file.parents]
    assert files or package == "spark_tools", f"{package} has no sources"
    return files


def is_within(name: str, door: str) -> bool:
    return name == door or name.startswith(door + ".")


@pytest.mark.parametrize("package", ARROWS)
def test_imports_of_ours_point_one_way(package: str) -> None:
    own = package.replace("/", ".")
    doors = ARROWS[package] | {own}
    for file in sources_of(package):
        for name in imports_of(file):
            if name.partition(".")[0] in OURS:
                # `import a.b` also shows as `a`; a name is fine when it is in a door or leads to one.
                allowed = any(is_within(name, door) or is_within(door, name) for door in doors)
                assert allowed, f"{file.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("package", FORBIDDEN)
def test_what_a_package_must_not_know(package: str) -> None:
    for file in sources_of(package):
        for name in imports_of(file):
            assert name.partition(".")[0] not in FORBIDDEN[package], f"{file.relative_to(ROOT)} imports {name}"


def test_blocking_client_knows_no_trio() -> None:
    """A CLI command must start in a tenth of a second; trio alone takes that."""
    loaded = loaded_by("import rmqclient.blocking, rmqclient.admin, rmqserver.store.message_store")
    assert not loaded & {"trio", "textual", "pyspark", "rich", "typer", "asyncio"}


def test_server_loads_no_tools() -> None:
    loaded = loaded_by("import rmqserver.__main__, rmqserver.server")
    assert not loaded & {"textual", "pyspark", "rich", "typer", "asyncio", "numpy"}


def test_only_the_dashboard_loads_textual() -> None:
    """175 ms, which no other command shall pay: not its own entry in the registry, and no `--help`."""
    loaded = loaded_by(
        "import io, sys\n"
        "from rmqadmin import cli\n"
        "out, sys.stdout = sys.stdout, io.StringIO()\n"
        "assert cli.run(['tui', '--help']) == 0\n"
        "assert cli.run(['topicList', '-n', '127.0.0.1:1', '--timeout', '0.001']) != 0\n"
        "sys.stdout = out"
    )
    assert not loaded & {"textual", "trio", "pyspark", "asyncio"}


def test_only_the_package_of_the_dashboard_names_textual() -> None:
    for file in sources_of("rmqadmin"):
        if ROOT / "rmqadmin/tui" not in file.parents:
            assert not {name for name in imports_of(file) if name.partition(".")[0] == "textual"}, file


def test_what_the_dashboard_asks_knows_no_textual() -> None:
    """Sources run in threads: they must not be able to touch a widget."""
    for file in sorted((ROOT / "rmqadmin/tui/sources").rglob("*.py")):
        assert not {name for name in imports_of(file) if name.partition(".")[0] in ("textual", "rich")}, file


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    return set(done.stdout.split())
