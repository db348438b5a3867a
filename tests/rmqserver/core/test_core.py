"""The native core is built without a warning, and only its glue layer knows Python."""

import inspect
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

import rmqserver.core
from rmqserver.core import simple

ROOT = Path(__file__).parents[3]
CORE = ROOT / "rmqserver/core"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_is_built_without_a_warning(compiler: str, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    if not shutil.which(compiler) or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip(f"there is no {compiler}, or Python was installed without its headers")
    from hatch_build import build_command

    command = build_command(ROOT, tmp_path / "_core.so", "-Wall", "-Wextra", "-Werror", compiler=compiler)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_byte_layer_knows_no_python() -> None:
    assert [path.name for path in sorted(CORE.glob("*.[ch]")) if "Python.h" in path.read_text()] == ["glue.h"]


def test_both_modules_have_the_same_names() -> None:
    native = pytest.importorskip("rmqserver.core._core")
    names = {name for name, value in vars(native).items() if callable(value)}
    assert names == {"FrameCutter", "cut_signed", "index_units", "plain_records", "take_wanted"}
    for name in names:
        assert inspect.isclass(getattr(simple, name)) == inspect.isclass(getattr(native, name))
        assert getattr(rmqserver.core, name) is getattr(native, name)
