"""Imports go one way (docs/architecture.md). Read from the sources and, where loading costs a user time, from the
modules that a real process has loaded."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from itertools import combinations
from pathlib import Path

import pytest

from tests.support.source_trees import tree_of

ROOT = Path(__file__).parent.parent

# Package -> which of our packages it may import. A dotted name allows that subpackage alone.
ARROWS = {
    "rmqproto": set(),
    "rmqclient": {"rmqproto"},
    "rmqserver/core": {"rmqproto", "rmqserver.core"},
    "rmqserver/store": {"rmqproto", "rmqserver.core", "rmqserver.store"},
    "rmqserver": {"rmqproto", "rmqserver"},
    "rmqreplay": {"rmqproto", "rmqclient", "rmqserver.store", "rmqreplay"},
    "rmqadmin": {"rmqproto", "rmqclient", "rmqserver.store", "rmqreplay", "spark_tools", "rmqadmin"},
    "spark_tools": {"rmqproto", "rmqclient", "rmqserver.core", "rmqserver.store", "rmqreplay", "spark_tools"},
}
PACKAGES = ("rmqproto", "rmqclient", "rmqserver", "rmqadmin", "rmqreplay", "spark_tools")
OURS = {*PACKAGES, "quickstart", "bench", "tests"}

# Package -> third-party and standard modules that it must not import.
FORBIDDEN = {
    "rmqproto": {"trio", "socket", "ssl", "asyncio", "typer", "rich", "textual", "pyspark"},
    "rmqserver/core": {"trio", "socket", "os", "typer", "rich", "textual", "pyspark"},
    "rmqserver/store": {"trio", "socket", "typer", "rich", "textual", "pyspark"},
    "rmqserver": {"typer", "rich", "textual", "pyspark", "asyncio"},
    "rmqclient": {"typer", "rich", "textual", "pyspark"},
    "rmqreplay": {"trio", "typer", "rich", "textual", "pyspark", "asyncio"},
}


@cache
def read(path: Path) -> tuple[set[str], list[str]]:
    """What a file imports, and its classes without an underscore, which is read once for all tests."""
    tree, imports = tree_of(path), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            imports |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return imports, [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def imports_of(path: Path) -> set[str]:
    return read(path)[0]


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
                # `import a.b` also shows as `a`, so a parent of an allowed package is allowed too.
                allowed = any(is_within(name, door) or is_within(door, name) for door in doors)
                assert allowed, f"{file.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("package", FORBIDDEN)
def test_what_a_package_must_not_know(package: str) -> None:
    for file in sources_of(package):
        for name in imports_of(file):
            assert name.partition(".")[0] not in FORBIDDEN[package], f"{file.relative_to(ROOT)} imports {name}"


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_goes_in_a_circle(package: str) -> None:
    """Imports inside functions and imports for types count too: two modules that know each other are hard to change
    alone."""
    files = {module_name(file): file for file in (ROOT / package).rglob("*.py")}
    imports = {name: imports_of(file) & files.keys() for name, file in files.items()}
    TopologicalSorter(imports).prepare()  # CycleError names the cycle


# Folder -> its floors, from below. Each line may import from itself and from those before it.
FLOORS = {
    "rmqserver": [
        {"core"},
        {"advertise", "completion", "environment", "logs", "operation", "system", "version"},
        {"store", "temporary_store"},
        {"remoting"},
        {"faults", "request_needs", "request_rules", "snapshots", "tls"},
        {"auth", "limits"},
        {"config"},
        {"broker", "controller", "namesrv"},
        {"doors", "metrics", "seed"},
        {"command_line"},
        {"process"},
        {"program", "__main__", "with_parent"},
    ],
    "rmqserver/store": [
        {"disk"},
        {"options", "fate", "results", "running_flags", "new_message"},
        {"log", "epochs"},
        {"queues"},
        {"followers", "index"},
        {"append", "recovery"},
        {"message_store", "retention"},
        {"sequences", "timers"},
        {"found"},
        {"checks"},
    ],
    "rmqserver/broker": [
        {"errors", "own_address", "reads", "stats"},
        {"tables", "registration"},
        {"clients", "lost_queues"},
        {"sending"},
        {"relays"},
        {"transactions", "consuming"},
        {"replicas"},
        {"admin", "controlled"},
        {"assembly"},
        {"broker"},
    ],
    "rmqclient": [
        {"addresses", "lifetime", "message", "parking", "pull", "sending", "tls", "unread_queues"},
        {"listener", "remoting", "threads"},
        {"blocking", "deduplication", "tracing"},
        {"admin", "consuming", "producers"},
        {"consumers"},
    ],
    "rmqadmin": [
        {"core", "testing", "version"},
        {"cli"},
        {"tui"},
        {"commands"},  # of these only `tui` opens the dashboard
        {"__main__"},
    ],
}


@pytest.mark.parametrize("house", FLOORS)
def test_no_arrow_runs_up(house: str) -> None:
    """Imports for types count too."""
    floor_of = {name: number for number, names in enumerate(FLOORS[house]) for name in names}
    package = house.replace("/", ".")
    for file in (file for file in sorted((ROOT / house).rglob("*.py")) if file != ROOT / house / "__init__.py"):
        own = floor_of[file.relative_to(ROOT / house).with_suffix("").parts[0]]
        for name in imports_of(file):
            if name.startswith(f"{package}."):
                above = name.removeprefix(f"{package}.").partition(".")[0]
                assert floor_of[above] <= own, f"{file.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize(
    "subject", ["admin", "clients", "consuming", "reads", "relays", "sending", "stats", "tables", "transactions"]
)
def test_operations_know_no_frames(subject: str) -> None:
    """They take and give values: a second door stands beside the remoting (``tests/rmqserver/doors``)."""
    single = ROOT / f"rmqserver/broker/{subject}.py"
    for file in [single] if single.exists() else sources_of(f"rmqserver/broker/{subject}"):
        for name in imports_of(file):
            is_of_a_door = is_within(name, "rmqserver.remoting") or is_within(name, "rmqserver.doors")
            assert not is_of_a_door, f"{file.relative_to(ROOT)} imports {name}"


def test_only_doors_render_answers_of_a_broker() -> None:
    """Its links to masters, nameservers and controllers ask; whoever asks it comes through a door."""
    for file in sources_of("rmqserver/broker"):
        assert not any(is_within(name, "rmqserver.remoting.answer") for name in imports_of(file)), file


@pytest.mark.parametrize(
    ("room", "closed"),
    [
        ("rmqadmin/core", ("rmqadmin.commands", "rmqadmin.tui", "rmqadmin.cli", "typer")),
        ("rmqadmin/commands", ("rmqadmin.commands",)),
        ("rmqadmin/tui", ("rmqadmin.commands", "rmqadmin.cli.call", "typer")),
    ],
)
def test_commands_and_dashboard_share_only_the_core(room: str, closed: tuple[str, ...]) -> None:
    """A command that another one imports cannot be changed alone."""
    for file in sorted((ROOT / room).rglob("*.py")):
        for name in imports_of(file):
            assert not any(is_within(name, door) for door in closed), f"{file.relative_to(ROOT)} imports {name}"


# Packages whose files may share names because they show one subject from several sides.
MIRRORS = [
    ("rmqproto/headers", "rmqproto/bodies"),
    ("rmqserver/store/queues", "rmqserver/store/index"),  # what each takes from the log is its feed
    ("rmqadmin/core", "rmqadmin/commands", "rmqadmin/tui"),  # mqadmin names the commands
    ("rmqadmin/tui/screens", "rmqadmin/tui/sources", "rmqadmin/tui/dialogs"),
]


def test_no_two_classes_share_a_name() -> None:
    """A reader who searches for a class finds the right one. Classes with an underscore stay in their file."""
    places: dict[str, list[str]] = {}
    for file in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        for name in read(file)[1]:
            places.setdefault(name, []).append(str(file.relative_to(ROOT)))
    shared = {name: files for name, files in places.items() if len(files) > 1}
    assert not shared, f"give each idea a name of its own: {shared}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_files_of_a_package_share_a_name(package: str) -> None:
    places: dict[str, list[Path]] = {}
    for file in sorted((ROOT / package).rglob("*.py")):
        if file.stem not in ("__init__", "__main__", "base"):
            places.setdefault(file.name, []).append(file)
    pairs = [pair for files in places.values() for pair in combinations(files, 2)]
    shared = [[str(file.relative_to(ROOT)) for file in pair] for pair in pairs if not are_mirrored(*pair)]
    assert not shared, f"name one of the two after what only it holds: {shared}"


def are_mirrored(one: Path, other: Path) -> bool:
    for rooms in MIRRORS:
        holders = [{room for room in rooms if ROOT / room in file.parents} for file in (one, other)]
        if all(holders) and holders[0] != holders[1]:
            return True
    return False


def test_blocking_client_knows_no_trio() -> None:
    """A CLI command must start in a tenth of a second, and trio alone takes that long."""
    loaded = loaded_by("import rmqclient.blocking, rmqclient.admin, rmqserver.store.message_store")
    assert not loaded & {"trio", "textual", "pyspark", "rich", "typer", "asyncio"}


def test_server_loads_no_tools() -> None:
    loaded = loaded_by("import rmqserver.program, rmqserver.process.server")
    assert not loaded & {"textual", "pyspark", "rich", "typer", "asyncio", "numpy"}


def test_only_the_dashboard_loads_textual() -> None:
    """Loading it takes 175 ms. No other command should pay that, nor should `tui --help`."""
    loaded = loaded_by(
        "import io, sys\n"
        "from rmqadmin.cli import program\n"
        "out, sys.stdout = sys.stdout, io.StringIO()\n"
        "assert program.run(['tui', '--help']) == 0\n"
        "assert program.run(['topicList', '-n', '127.0.0.1:1', '--timeout', '0.001']) != 0\n"
        "sys.stdout = out"
    )
    assert not loaded & {"textual", "trio", "pyspark", "asyncio"}


def test_only_the_package_of_the_dashboard_names_textual() -> None:
    for file in sources_of("rmqadmin"):
        if ROOT / "rmqadmin/tui" not in file.parents:
            assert not {name for name in imports_of(file) if name.partition(".")[0] == "textual"}, file


def test_only_the_prompt_names_prompt_toolkit() -> None:
    """Loading it takes 80 ms. Lines that nobody types do without it."""
    found = {
        str(file.relative_to(ROOT))
        for file in sources_of("rmqadmin")
        if any(name.partition(".")[0] == "prompt_toolkit" for name in imports_of(file))
    }
    assert found == {"rmqadmin/cli/prompt/interactive.py"}


def test_workers_of_the_dashboard_are_given_functions() -> None:
    """A coroutine that is made for a worker which is called off before it begins is never awaited. ``begin`` makes it
    in the worker."""
    for file in sorted((ROOT / "rmqadmin/tui").rglob("*.py")):
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run_worker":
                assert not isinstance(node.args[0], ast.Call), f"{file}:{node.lineno}"


def test_what_the_dashboard_asks_knows_no_textual() -> None:
    """Sources run in threads: they must not be able to touch a widget."""
    for file in sorted((ROOT / "rmqadmin/tui/sources").rglob("*.py")):
        assert not {name for name in imports_of(file) if name.partition(".")[0] in ("textual", "rich")}, file


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    return set(done.stdout.split())
