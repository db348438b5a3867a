"""The command lines of a page, and a minimal shell that runs them inside the test's process."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.rmqadmin.conftest import Rmqadmin

ROOT = Path(__file__).parents[3]


def command_lines(page: str) -> list[str]:
    """The lines of a page's shell blocks, also of those in a list, that contain an rmqadmin command. The page is given
    by its path."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    lines = [line.strip() for language, block in blocks if language in ("sh", "") for line in block.splitlines()]
    return [line for line in lines if re.search(r"(^|\| )rmqadmin ", line)]


def run_lines(
    rmqadmin: Rmqadmin, page: str, meant: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, bytes]:
    """Runs all lines in order, with the words of ``meant`` replaced. Returns the output of each line as the page has
    it."""
    lines = command_lines(page)
    assert lines, page
    return {line: run_line(rmqadmin, line, meant, monkeypatch) for line in lines if is_possible(line)}


def is_possible(line: str) -> bool:
    """Whether the line can run. Without the extra, ``--jq`` is an error that other tests cover."""
    return "--jq" not in line or find_spec("jq") is not None


def run_line(
    rmqadmin: Rmqadmin, written: str, meant: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, data: bytes = b""
) -> bytes:
    """Runs one shell line with pipes, a final ``> FILE``, ``</dev/null`` and a comment. It must end with the status in
    the comment (``# exit status 4``), or by Ctrl-C if it is endless, else with 0."""
    line = written
    for word, replaced in meant.items():
        line = line.replace(word, replaced)
    words = [word for word in shlex.split(line, comments=True) if word != "</dev/null"]
    said = re.search(r"#.*exit status (\d+)", written)
    endless = "--follow" in words or ("--watch" in words and "--until" not in words)
    expected = int(said[1]) if said else 130 if endless and "--limit" not in words else 0
    target = Path(words[-1]) if len(words) > 2 and words[-2] == ">" else None
    words = words[:-2] if target else words
    while words:
        end = words.index("|") if "|" in words else len(words)
        command, words = words[:end], words[end + 1 :]
        if command[0] == "rmqadmin":
            data = _run_ours(rmqadmin, command[1:], data, expected if not words else 0, written, monkeypatch)
        else:
            data = subprocess.run(command, input=data, capture_output=True, check=True, env=os.environ).stdout
    assert data or expected, f"{written} writes nothing"
    if target is not None:
        target.write_bytes(data)
    return data


def _run_ours(
    rmqadmin: Rmqadmin, args: list[str], data: bytes, expected: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> bytes:
    with monkeypatch.context() as patch:
        out = io.TextIOWrapper(io.BytesIO(), write_through=True)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        ran = rmqadmin(*args)
        assert ran.status == expected, f"{line}\nexit status {ran.status}: {ran.err}"
    return out.detach().getvalue()  # type: ignore[no-any-return, attr-defined]
