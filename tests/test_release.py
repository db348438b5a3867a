"""``make release`` and ``make audit``: a release comes with its hashes and is reproducible; a known weakness of a
package fails the audit."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKE = shutil.which("make")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(MAKE is None, reason="there is no make")]


def make(directory: Path, venv: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Uses ``venv`` as it is and installs nothing."""
    as_it_is = ("-o", f"{venv}/.created", "-o", f"{venv}/.test", "-o", f"{venv}/.audit")
    return subprocess.run(
        [str(MAKE), "--no-print-directory", *args, f"VENV={venv}", *as_it_is],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


# --- release ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the files in the repository, without build leftovers."""
    if not (ROOT / ".git").exists():
        pytest.skip("which files are the project's is not known without its repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "sources" / name)
    return tmp_path / "sources"


def checked(dist: Path) -> int:
    """The exit status of the check that a user of the release runs."""
    return subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=dist, capture_output=True, check=False).returncode


def test_a_release_has_its_hashes_and_is_the_same_each_time(sources: Path, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").write_text(f'#!/bin/sh\ntest "$2" = pip || exec {sys.executable} "$@"\n')
    (venv / "bin/python").chmod(0o755)
    sums = []
    for _ in range(2):
        done = make(sources, venv, "release")
        assert done.returncode == 0, done.stdout
        dist = sources / "dist"
        sums.append((dist / "SHA256SUMS").read_text())
        assert sums[-1] in done.stdout
        assert checked(dist) == 0
    assert sums[0] == sums[1]
    released = dict(reversed(line.split()) for line in sums[0].splitlines())
    assert {name: len(digest) for name, digest in released.items()} == {
        path.name: 64 for path in dist.iterdir() if path.name != "SHA256SUMS"
    }
    (archive,) = dist.glob("*.tar.gz")
    (wheel,) = dist.glob("*.whl")
    with tarfile.open(archive) as source_package, zipfile.ZipFile(wheel) as package:
        native = [path.relative_to(sources).as_posix() for path in sources.glob("rmqserver/core/*.[ch]")]
        top = archive.name.removesuffix(".tar.gz")
        assert {f"{top}/{name}" for name in (*native, "pyproject.toml", "hatch_build.py")} <= {
            *source_package.getnames()
        }
        assert {"rmqserver/auth/auth_gate.py", "rmqserver/core/simple.py"} <= {*package.namelist()}
    with wheel.open("ab") as file:
        file.write(b"x")
    assert checked(dist) != 0


# --- audit -----------------------------------------------------------------------------------------------------------

AUDITOR = """\
#!/bin/sh
echo "asked: $*"
exit $WEAKNESSES
"""
"""Stands in for ``pip-audit``, which asks a registry."""


@pytest.mark.parametrize("weaknesses", [0, 1])
def test_an_audit_is_strict_and_a_weakness_ends_it(
    weaknesses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "audit/bin/pip-audit"
    program.parent.mkdir(parents=True)
    program.write_text(AUDITOR)
    program.chmod(0o755)
    monkeypatch.setenv("WEAKNESSES", str(weaknesses))
    done = make(ROOT, tmp_path, "audit")
    assert (done.returncode != 0) is (weaknesses != 0)
    assert "--requirement constraints.txt --strict" in done.stdout
    assert "--strict" not in make(ROOT, tmp_path, "audit", "AUDIT=").stdout


def test_what_is_audited_are_exact_versions_of_all_that_is_named() -> None:
    """A name without a version would be looked up as something else, and a package without a line not at all."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    audited = [line.partition(";")[0].strip() for line in lines if line]
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.+!]+", line) for line in audited)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [*project["project"].get("optional-dependencies", {}).values(), *project["dependency-groups"].values()]
    named = {
        re.split(r"[\s\[<>=!~;]", text)[0]
        for group in (project["project"]["dependencies"], *groups)
        for text in group
        if isinstance(text, str)
    }
    known = {plain(line.partition("==")[0]) for line in audited}
    assert {plain(name) for name in named} - known - {plain(project["project"]["name"])} == set()


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
