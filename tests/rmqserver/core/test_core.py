"""The native core is built without a warning, and only its glue layer knows Python."""

import importlib.util
import inspect
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import rmqserver.core
from rmqserver.core import header_blocks, round_buffer, simple

ROOT = Path(__file__).parents[3]
CORE = ROOT / "rmqserver/core"


ZIG = f"{sys.executable} -m ziglang cc"
"""A clang that comes as a wheel, with the C libraries of other processors."""

COMPILERS = {"gcc": "gcc", "clang": "clang", "zig": ZIG, "zig for aarch64": f"{ZIG} -target aarch64-linux-gnu"}


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_it_is_built_without_a_warning(compiler: str, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = COMPILERS[compiler]
    is_there = importlib.util.find_spec("ziglang") if command.startswith(ZIG) else shutil.which(command)
    if not is_there or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip(f"there is no {compiler}, or Python was installed without its headers")
    from hatch_build import build_command

    # Debian's Python.h looks for a file of the processor's own, which has the same sizes for both.
    for of_x86 in Path("/usr/include/x86_64-linux-gnu").glob("python3.*/pyconfig.h"):
        own = tmp_path / "aarch64-linux-gnu" / of_x86.parent.name
        own.mkdir(parents=True)
        shutil.copy(of_x86, own)
    strict = "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"
    build = build_command(ROOT, tmp_path / "_core.so", *strict, compiler=command)
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_byte_layer_knows_no_python() -> None:
    assert [path.name for path in sorted(CORE.glob("*.[ch]")) if "Python.h" in path.read_text()] == ["glue.h"]


def test_both_modules_have_the_same_names() -> None:
    native = pytest.importorskip("rmqserver.core._core")
    names = {name for name, value in vars(native).items() if callable(value)}
    assert names == {
        "FrameCutter", "HeaderDecoder", "PlainPulls", "PlainSends", "Puts", "RoundBuffer", "cut_ack", "cut_send",
        "cut_signed", "flush_dirty", "index_units", "pack_received", "plain_records", "record_starts",
        "serve_ready", "take_wanted",
    }  # fmt: skip
    homes = {"RoundBuffer": round_buffer, "HeaderDecoder": header_blocks}
    for name in names:
        twin = getattr(homes.get(name, simple), name)
        assert inspect.isclass(twin) == inspect.isclass(getattr(native, name))
        assert getattr(rmqserver.core, name) is getattr(native, name)


def test_a_core_of_older_sources_is_not_used() -> None:
    pytest.importorskip("rmqserver.core._core")
    code = (
        "from rmqserver.core import _core; _core.CONTRACT -= 1; import importlib, rmqserver.core as core; "
        "importlib.reload(core); print(core.NAME)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "python\n", done.stderr
