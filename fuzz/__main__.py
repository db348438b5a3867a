"""``python -m fuzz [TARGET ...]``: fuzzes each target for FUZZ_SECONDS (60) by the clock, two at a time on each
processor. A find is printed as a line for ``fuzz/seeds/TARGET.txt``. Once it is added there, the tests fail until the
fault is fixed."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from fuzz.targets import TARGETS, seeds

INPUT_MAX_BYTES = 4096
RSS_MAX_MIB = 2048
ONE_INPUT_MAX_S = 10
END_GRACE_S = 60
WATCHED = ("rmqproto", "rmqserver", "rmqclient", "rmqadmin", "rmqreplay", "spark_tools")


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        _fuzz(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Fuzzes decoders, FUZZ_SECONDS (60) each; exit status 1 for a find."
    )
    parser.add_argument("target", nargs="*", type=_known, help=f"all, or some of {', '.join(TARGETS)}")
    names = parser.parse_args().target or list(TARGETS)
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    has_found = False
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        for done in as_completed([pool.submit(_run, name, seconds) for name in names]):
            is_find, text = done.result()
            print(text, end="", flush=True)
            has_found |= is_find
    return 1 if has_found else 0


def _known(name: str) -> str:
    if name not in TARGETS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(TARGETS)}")
    return name


def _run(name: str, seconds: int) -> tuple[bool, str]:
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
            [sys.executable, "-m", "fuzz", "--child", name, *options, str(corpus)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=seconds + END_GRACE_S, check=False,
        )  # fmt: skip
        found = sorted(Path(directory).glob("found-*"))
        runs = [line.rpartition(" ")[2] for line in done.stdout.splitlines() if "number_of_executed_units" in line]
        text = f"{name}: {' '.join(runs) or 'no'} inputs in {seconds} s, {len(found)} found\n"
        if found or done.returncode:
            text += f"{done.stdout[-4000:]}\n"
        for path in found:
            text += f"{path.read_bytes().hex()}  # fuzz/seeds/{name}.txt\n"
    return bool(found or done.returncode), text


def _fuzz(name: str, options: list[str]) -> None:
    """Fuzzes in this process. Never returns."""
    import atheris

    with atheris.instrument_imports(include=list(WATCHED), enable_loader_override=False):
        for module in [name for name in sys.modules if name.partition(".")[0] in (*WATCHED, "fuzz")]:
            del sys.modules[module]  # imported for the list of targets; import again, instrumented
        from fuzz import targets

    logging.disable()  # warnings about unknown keys would take most of the time
    target = targets.TARGETS[name]
    atheris.Setup([sys.argv[0], *options], lambda data: targets.run_one(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
