"""Runs ``make test`` in a new clone with each other release of Python from 3.11 to 3.15, as on a machine with this
Python, make, git and a shell's tools, but without Java, Maven, Go, Node or a C compiler. Releases that the machine
lacks come from a small Debian, if one can be made (``debian_root.sh``). Then this machine's compiler builds the native
core for that Python, and the tests of what uses it run with it. The run of CI around it has all tests, with the
oldest release if it can. With the others, CI only runs the tests of what a release may change (EDGES and LIBRARY).
Those BETWEEN take turns. `make pythons` runs all."""

from __future__ import annotations

import itertools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RELEASES = ("3.11", "3.12", "3.13", "3.14", "3.15")
RUNNING = platform.python_version().rpartition(".")[0]
FOLDERS = (*sorted((Path.home() / ".pyenv/versions").glob("*/bin")), Path("/usr/bin"), Path("/usr/local/bin"))
"""Where to look for Pythons: PATH often has only one, or a version manager's shims."""
BETWEEN = RELEASES[1:-1]
DEBIAN = ROOT / ".venv" / "debian"
DEBIAN_RELEASES = ("3.14", "3.15")
"""What ``debian_root.sh`` installs."""
CANNOT_BE_MADE = 3
EDGES = (
    "tests/rmqadmin/test_start_up.py",
    "tests/rmqadmin/test_terminal.py",
    "tests/rmqadmin/tui/test_terminal.py",
    "tests/rmqclient",
    "tests/rmqserver/process",
    "tests/rmqserver/remoting",
    "tests/rmqserver/test_command_line.py",
    "tests/rmqserver/test_environment.py",
    "tests/rmqserver/tls",
)
"""Where programs meet Python and the system: they start and end, use terminals, sockets, TLS, threads and trio. Each
release is tested here, and those BETWEEN only here: what works in the releases before and behind one seldom fails in
it."""
LIBRARY = (
    "tests/rmqadmin/test_examples.py",
    "tests/rmqadmin/test_every_format.py",
    "tests/rmqproto",
    "tests/rmqserver/config",
    "tests/rmqserver/store",
    "tests/rmqserver/broker/test_golden_*.py",
    "tests/hostile/test_frames.py",
    "tests/hostile/test_fuzz_seeds.py",
    "tests/spark_tools",
)
"""What a newer library could change: each command and each format, the codecs and the store without their C modules,
what decoders make of damaged bytes, and each recorded exchange with a server.

No release changes the rules that stand on these: what a broker promises after a crash, a set after a fail-over, or a
dashboard on its screens. They take more than half of the time of all, and `make pythons` tests them too."""
OF_CORE = (
    "tests/rmqserver/core",
    "tests/rmqserver/store/append",
    "tests/rmqserver/store/index",
    "tests/rmqserver/remoting",
)
TIMEOUT_S = 2700
SECOND_TRIES_MAX = 1

# The tools of a plain shell: coreutils, and others that every system has.
TOOLS = [
    "sh", "bash", "dash", "env", "make", "git", "[", "awk", "basename", "cat", "chmod", "cmp", "cp", "cut", "date",
    "dd", "df", "diff", "dirname", "du", "echo", "expr", "false", "find", "getconf", "grep", "head", "hostname", "id",
    "install",
    "kill", "ln", "ls", "mkdir", "mkfifo", "mktemp", "mv", "nice", "nohup", "nproc", "od", "printf", "ps", "pwd",
    "readlink", "realpath", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "stty", "tail", "tee", "test",
    "mount", "umount",
    "timeout", "touch", "tr", "true", "tty", "uname", "uniq", "wc", "which", "whoami", "xargs", "gzip", "tar", "xz",
]  # fmt: skip
FOREIGN = ("java", "javac", "mvn", "go", "node", "npm", "cc", "gcc", "clang")
HANDED_DOWN = ("PYTEST", "PYTHON", "JAVA", "MAKE", "MFLAGS", "VIRTUAL_ENV", "CC")
"""Prefixes of variables that belong to this run, not to the machine."""


def version_of(python: Path) -> str | None:
    """The exact version of a Python; None if it does not run."""
    told = "import platform; print(platform.python_version())"
    try:
        done = subprocess.run([python, "-c", told], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def other_pythons() -> dict[str, Path]:
    """One Python of each other release, by its exact version."""
    found: dict[str, Path] = {}
    for release in (each for each in RELEASES if each != RUNNING):
        pythons = (folder / f"python{release}" for folder in FOLDERS)
        versions = {version: python for python in pythons if python.exists() and (version := version_of(python))}
        found.update(itertools.islice(versions.items(), 1))
    return found


OTHERS = other_pythons()
MISSING = {*RELEASES} - {RUNNING, *(version.rpartition(".")[0] for version in OTHERS)}


@pytest.mark.parametrize("release", sorted(MISSING - {*DEBIAN_RELEASES}))
def test_python_is_not_on_this_machine(release: str) -> None:
    pytest.skip(f"no Python {release} in {', '.join(map(str, FOLDERS))}: not tried")


def each_with_marks(versions: Iterable[str], group: str = "") -> list[object]:
    """Each version of Python in its own group, or in ``group``."""
    return [
        pytest.param(
            version,
            marks=[
                pytest.mark.xdist_group(group or version),
                *([pytest.mark.in_turn("Pythons")] if version.startswith(BETWEEN) else []),
            ],
        )
        for version in versions
    ]


@pytest.mark.flaky(reruns=0)  # it counts its own second tries
@pytest.mark.parametrize("version", each_with_marks(OTHERS))
def test_make_test(version: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    assert not [name for name in FOREIGN if shutil.which(name, path=str(tools))]
    clone = cloned(tmp_path / "clone")
    include = subprocess.run(
        [OTHERS[version], "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    make = ["make", f"PYTHON={OTHERS[version]}"]
    run_tests(version, make, clone, own_environment(str(tools)), clone, Path(include.stdout.strip()))


@pytest.mark.flaky(reruns=0)
@pytest.mark.parametrize("release", each_with_marks(sorted(MISSING & {*DEBIAN_RELEASES}), "debian"))
def test_make_test_in_a_newer_debian(release: str) -> None:
    script = str(Path(__file__).with_name("debian_root.sh"))
    made = subprocess.run(
        [script, "make", DEBIAN], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if made.returncode == CANNOT_BE_MADE:
        pytest.skip(f"Python {release} is not on this machine: not tried. {made.stderr.strip()}")
    assert made.returncode == 0, made.stderr
    folder = f"root/make-test-{release}"
    shutil.rmtree(DEBIAN / folder, ignore_errors=True)
    clone = cloned(DEBIAN / folder)
    there = [script, "run", str(DEBIAN), "make", "-C", f"/{folder}", f"PYTHON=python{release}"]
    environment = own_environment("/usr/sbin:/usr/bin") | {"HOME": "/root"}
    run_tests(release, there, ROOT, environment, clone, DEBIAN / f"usr/include/python{release}")


def own_environment(path: str) -> dict[str, str]:
    """The machine's environment without what belongs to this run."""
    return {name: value for name, value in os.environ.items() if not name.startswith(HANDED_DOWN)} | {"PATH": path}


def cloned(folder: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], stdin=subprocess.DEVNULL, check=True)
    return folder


def build_core(clone: Path, release: str, include: Path) -> None:
    """Builds the native core in a clone for a Python with these headers."""
    module = f"rmqserver/core/_core.cpython-{release.replace('.', '')}-{platform.machine()}-linux-gnu.so"
    sources = [str(path) for path in sorted((clone / "rmqserver/core").glob("*.c"))]
    flags = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    headers = ["-isystem", str(include), "-idirafter", str(include.parent)]
    subprocess.run(["gcc", *flags, *headers, *sources, "-o", str(clone / module)], check=True)


def run_tests(
    version: str, make: list[str], folder: Path, environment: dict[str, str], clone: Path, include: Path
) -> None:
    """``make test`` as ``make`` says, for the tests that a release may change, or for all of them; then those of the
    native core, if there are a compiler and the Python's headers."""

    def make_test(options: str) -> str:
        done = subprocess.run(
            [*make, "--no-print-directory", "test", f"PYTEST={options}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
        told = "\n".join(line for line in done.stdout.splitlines() if not line.endswith("%]"))  # without progress dots
        assert done.returncode == 0, told
        return told

    if "WHOLE" in os.environ:
        wanted: tuple[str, ...] = ()
    else:
        # All modules can be imported here, without Spark, too.
        make_test("--numprocesses 0 --collect-only -qq")
        wanted = (*EDGES, *(() if version.startswith(BETWEEN) else LIBRARY))
    # One worker, and a second try, because another run uses the machine at the same time.
    told = make_test(f"--numprocesses 1 --reruns 1 {' '.join(wanted)}")
    tried_again = re.findall(r"^RERUN (.*)$", told, re.MULTILINE)
    assert len(tried_again) <= SECOND_TRIES_MAX, told
    if shutil.which("gcc") and (include / "Python.h").exists():
        build_core(clone, ".".join(version.split(".")[:2]), include)
        told = make_test(f"--numprocesses 1 -rs {' '.join(OF_CORE)}")
        assert "could not import 'rmqserver.core._core'" not in told, f"the core is there, and was not loaded: {told}"
