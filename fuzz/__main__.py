"""``python -m fuzz [TARGET ...]``: fuzzes each target for FUZZ_SECONDS (60) by the clock, two at a time on each
processor. The fuzzer sees which branches are taken: in Python, and for a target of the native core in C, which is built
for that by ziglang's clang with its checks of addresses and for undefined behaviour. A find is printed as a line for
``fuzz/seeds/TARGET.txt``. Once it is added there, the tests fail until the fault is fixed."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from fuzz.targets import TARGETS, seeds
from hatch_build import build_command

INPUT_MAX_BYTES = 4096
RSS_MAX_MIB = 2048
ONE_INPUT_MAX_S = 10
END_GRACE_S = 240
CORE = "rmqserver.core._core"
CORE_FLAGS = (
    "-O1", "-g", "-fsanitize=fuzzer-no-link,undefined", "-fsanitize-trap=undefined", "-Xclang", "-fsanitize=address",
)  # fmt: skip
"""``-Xclang``: ziglang has no library for the checks of addresses, so it would leave them out. Atheris has one."""
ROOT = Path(__file__).parent.parent
WATCHED = ("rmqproto", "rmqserver", "rmqclient", "rmqadmin", "rmqreplay", "spark_tools")


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        _fuzz(sys.argv[2], sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Fuzzes decoders, FUZZ_SECONDS (60) each; exit status 1 for a find."
    )
    parser.add_argument("target", nargs="*", type=_known, help=f"all, or some of {', '.join(TARGETS)}")
    names = parser.parse_args().target or list(TARGETS)
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    has_found = False
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as directory,
        ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool,
    ):
        core = Path(directory, "_core.so")
        if any(map(_is_of_core, names)):
            zig = f"{sys.executable} -m ziglang cc"
            subprocess.run(build_command(ROOT, core, *CORE_FLAGS, compiler=zig), cwd=ROOT, check=True)
        for done in as_completed([pool.submit(_run, name, core, seconds) for name in names]):
            is_find, text = done.result()
            print(text, end="", flush=True)
            has_found |= is_find
    return 1 if has_found else 0


def _known(name: str) -> str:
    if name not in TARGETS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(TARGETS)}")
    return name


def _is_of_core(name: str) -> bool:
    return name.startswith("core_")


def _run(name: str, core: Path, seconds: int) -> tuple[bool, str]:
    """Fuzzes one target. Returns whether something was found, and the text to print."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        corpus = Path(directory, "corpus")
        corpus.mkdir()
        for number, seed in enumerate(seeds(name)):
            (corpus / f"seed-{number}").write_bytes(seed)
        options = (
            f"-max_total_time={seconds}", f"-max_len={INPUT_MAX_BYTES}", f"-rss_limit_mb={RSS_MAX_MIB}",
            f"-timeout={ONE_INPUT_MAX_S}", f"-artifact_prefix={directory}/found-",
            "-verbosity=1", "-print_final_stats=1",
        )  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "fuzz", "--child", name, core, *options, str(corpus)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=seconds + END_GRACE_S, check=False, env=_environment(name),
        )  # fmt: skip
        found = sorted(Path(directory).glob("found-*"))
        runs = [line.rpartition(" ")[2] for line in done.stdout.splitlines() if "number_of_executed_units" in line]
        text = f"{name}: {' '.join(runs) or 'no'} inputs in {seconds} s, {len(found)} found\n"
        if found or done.returncode:
            text += f"{done.stdout[-4000:]}\n"
        for path in found:
            text += f"{path.read_bytes().hex()}  # fuzz/seeds/{name}.txt\n"
    return bool(found or done.returncode), text


def _environment(name: str) -> dict[str, str]:
    """A checked core needs the library of the checks before Python, and memory of its own for each object."""
    if not _is_of_core(name):
        return {**os.environ}
    import atheris

    checks = {"LD_PRELOAD": f"{atheris.path()}/asan_with_fuzzer.so", "ASAN_OPTIONS": "detect_leaks=0"}
    return {**os.environ, **checks, "PYTHONMALLOC": "malloc"}


def _fuzz(name: str, core: str, options: list[str]) -> None:
    """Fuzzes in this process. Never returns."""
    import atheris

    if _is_of_core(name):
        _import_anew()
        sys.meta_path.insert(0, _InsteadOfCore(core))
        from fuzz import targets
    else:
        with atheris.instrument_imports(include=list(WATCHED), enable_loader_override=False):
            _import_anew()
            from fuzz import targets

    logging.disable()  # warnings about unknown keys would take most of the time
    target = targets.TARGETS[name]
    atheris.Setup([sys.argv[0], *options], lambda data: targets.run_one(target, data))
    atheris.Fuzz()


class _InsteadOfCore:
    """Finds another file for the module of the native core."""

    def __init__(self, path: str):
        self._path = path

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._path) if name == CORE else None


def _import_anew() -> None:
    """Forgets the modules that were imported for the list of targets."""
    for module in [name for name in sys.modules if name.partition(".")[0] in (*WATCHED, "fuzz")]:
        del sys.modules[module]


if __name__ == "__main__":
    sys.exit(main())
