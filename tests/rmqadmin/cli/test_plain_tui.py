"""A plain ``tui`` line is read without Typer and means what Typer would read. Every other line is left to Typer."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqadmin.call import Call
from rmqadmin.cli import program
from rmqadmin.cli.plain_tui import read_plain_line
from rmqadmin.commands.dashboard import tui as command
from rmqadmin.options.common_options import CommonOptions

NOT_BEFORE_THE_FIRST_FRAME = {
    "typer",
    "rmqadmin.cli.program",
    "rmqadmin.commands.dashboard.tui",
    "rmqclient.admin",
    "rmqadmin.tui.sampler",
    "rmqadmin.tui.screens.topics",
    "rmqadmin.tui.widgets.tables.filter_input",
    "rmqadmin.tui.widgets.plot",
}

_ADDRESSES = st.from_regex(r"[a-z0-9.]{1,9}:[0-9]{1,5}(;[a-z0-9.]{1,9}:[0-9]{1,5})?", fullmatch=True)
_SECONDS = st.integers(500, 59_999).map(lambda ms: f"{ms / 1000:g}")
_PARTS = st.fixed_dictionaries(
    {},
    optional={
        "namesrv": st.tuples(st.sampled_from(["-n", "--namesrvAddr"]), _ADDRESSES),
        "context": st.tuples(st.just("--context"), st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True)),
        "interval": st.tuples(st.just("--interval"), _SECONDS),
        "read_only": st.just(("--read-only",)),
        "unlock": st.just(("--unlock",)),
    },
).map(lambda parts: list(parts.values()))


def read_by_typer(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> tuple[CommonOptions, dict[str, Any]]:
    """The shared options, and the arguments that open the dashboard."""
    found: list[tuple[CommonOptions, dict[str, Any]]] = []

    def opened(call: Call, **own: Any) -> None:
        found.append((call._options, {name: value for name, value in own.items() if value not in (None, False)}))

    with monkeypatch.context() as patched:
        patched.setattr(command, "open_dashboard", opened)
        assert program.run(["tui", *words]) == 0
    return found[0]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_plain_line_means_what_typer_reads_in_it(data: st.DataObject) -> None:
    words = list(chain.from_iterable(data.draw(st.permutations(data.draw(_PARTS)))))
    line = read_plain_line(words)
    assert line is not None
    with pytest.MonkeyPatch.context() as patched:
        assert (CommonOptions(**line.shared), line.own) == read_by_typer(patched, words)


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "-n",
        "-n --read-only",
        "-n a:1 -n b:1",
        "-n a:1 --namesrvAddr b:1",
        "--namesrvAddr=a:1",
        "--NAMESRVADDR a:1",
        "--interval 0.4",
        "--interval 60.001",
        "--interval x",
        "--interval",
        "--read-only --read-only",
        "--serve",
        "--timeout 3",
        "--record file",
        "word",
        "--context ../x",
    ],
)
def test_every_other_line_is_left_to_typer(line: str) -> None:
    assert read_plain_line(line.split()) is None


def run(*words: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    script = (
        f"import sys\nsys.argv = ['rmqadmin', *{list(words)!r}]\n{before}\nfrom rmqadmin.__main__ import main\nmain()"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


@pytest.mark.parametrize("words", [["-n", "a:1"], ["--context", "nosuch"], ["-n", "a:x"]])
def test_what_goes_wrong_is_said_as_everywhere(words: list[str]) -> None:
    plain, usual = run("tui", *words), run("TUI", *words)
    assert (plain.returncode, plain.stderr) == (usual.returncode, usual.stderr)
    assert plain.returncode != 0
    assert plain.stderr


def test_the_first_frame_waits_for_no_module_that_it_does_not_need() -> None:
    """Each module delays the frame by milliseconds. ``App.run`` comes before anything is drawn."""
    told = (
        "from textual.app import App\n"
        "def run(app):\n"
        "    print(*sys.modules)\n"
        "    screen = app.get_default_screen()\n"
        "    print(*sys.modules)\n"
        "App.run = run"
    )
    done = run("tui", "-n", "127.0.0.1:1", before=told, TEXTUAL_DRIVER="textual.drivers.headless_driver:HeadlessDriver")
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"rmqadmin.tui.app", "rmqadmin.tui.screens.pulse"} <= loaded
    assert not loaded & NOT_BEFORE_THE_FIRST_FRAME


def test_changes_are_written_down_with_the_options_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from rmqadmin.cli import plain_tui

    found: list[Call] = []
    monkeypatch.setattr("rmqadmin.shared.open_dashboard.open_dashboard", lambda call, **_: found.append(call) or 0)
    line = read_plain_line(["--interval", "5"])
    assert line is not None
    assert plain_tui.run(line) == 0
    assert found[0]._arguments is not None
    assert msgspec.to_builtins(found[0]._arguments())["told"] == {"--interval": 5.0}
