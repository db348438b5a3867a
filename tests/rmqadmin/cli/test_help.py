"""What helps show: the program's fits one screen, and a command's begins with its own options."""

import os
import re
from importlib import resources
from pathlib import Path

import pytest

from rmqadmin.cli import registry
from rmqadmin.cli.parsing.command_tree import all_commands
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.quick import first_is_quick


@pytest.mark.parametrize("line", ["", "--help", "-h", "help"])
def test_the_programs_help_fits_one_screen(run: Rmqadmin, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """It had 219 lines, in which what people need daily stood beside what nobody does."""
    monkeypatch.setenv("COLUMNS", "80")
    ran = run(*line.split(), status=0)
    lines = ran.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "msg send|cat" in ran.out
    assert f"--help --all`: all {len(registry.ENTRIES)} commands" in ran.out


def test_what_people_need_daily_is_there() -> None:
    names = {entry.name.partition(" ")[0] for entry in registry.ENTRIES}
    assert registry.DAILY.keys() <= names | {"topic"}
    shown = [entry for entry in registry.ENTRIES if entry.name.partition(" ")[0] in registry.DAILY]
    assert len(shown) >= 25


@pytest.mark.parametrize("line", ["--help --all", "--all -h", "help --all"])
def test_everything_is_behind_all(run: Rmqadmin, line: str) -> None:
    ran = run(*line.split(), status=0)
    assert [entry.name for entry in registry.ENTRIES if f"  {entry.name}" not in ran.out] == []
    assert "--no-pager" in ran.out


@pytest.mark.parametrize("name", first_is_quick([entry.name for entry in registry.ENTRIES], 40))
def test_a_commands_help_shows_its_own_options_and_names_the_others_in_one_line(run: Rmqadmin, name: str) -> None:
    (command,) = [each for each in all_commands() if each.entry.name == name]
    own = run(*name.split(), "--help")
    whole = run(*name.split(), "--help", "--all")
    assert (own.status, whole.status) == (0, 0)
    for option in command.options:
        shown = re.compile(rf"^  {option.names[0]}\b(?!-)", re.MULTILINE)
        assert shown.search(whole.out), option.names
        assert (shown.search(own.out) is None) is option.is_shared, option.names
    assert "--help --all shows them." in own.out
    assert "Options of every command:" in whole.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_is_printed_and_installed(run: Rmqadmin, tmp_path: Path, shell: str) -> None:
    files = {"bash": "rmqadmin.bash", "zsh": "_rmqadmin", "fish": "rmqadmin.fish"}
    text = resources.files("rmqadmin.cli.shells").joinpath(files[shell]).read_text()
    assert run("completion", shell).out.strip() == text.strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        ran = run("completion", shell, "--install")
    assert ran.status == 0
    path = Path(ran.out.strip())
    assert path.is_relative_to(tmp_path)
    assert path.read_text() == text
    assert ("fpath+=" in ran.err) is (shell == "zsh")
    assert (f"in ~/.bashrc: . {path}" in ran.err) is (shell == "bash")


def test_a_completion_that_cannot_be_installed_says_so(run: Rmqadmin, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(blocked))
        ran = run("completion", "bash", "--install")
    assert (ran.status, os.strerror(20) in ran.err) == (2, True)
    assert run("completion", "tcsh").status == 2
