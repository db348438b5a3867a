"""The completion of ``rmqserver``, printed, installed, and used by bash."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from rmqserver.completion import SHELLS, completion
from rmqserver.program import _parser, run
from tests.support.zsh import assert_zsh_completes


def offered(tmp_path: Path, *words: str) -> list[str]:
    file = tmp_path / "rmqserver.bash"
    file.write_text(completion("bash", _parser().options_by_command))
    script = (
        f"source {shlex.quote(str(file))}; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _rmqserver; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_commands_options_choices_and_files(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").touch()
    assert offered(tmp_path, "rmqserver", "st") == ["standalone"]
    assert offered(tmp_path, "rmqserver", "standalone", "--allow") == ["--allow-unknown"]
    assert offered(tmp_path, "rmqserver", "broker", "--flush", "") == ["sync", "async"]
    assert offered(tmp_path, "rmqserver", "broker", "--config", "bro") == ["broker.conf"]
    assert offered(tmp_path, "rmqserver", "completion", "") == ["bash", "zsh", "fish", "--install"]
    assert "--etcd" not in offered(tmp_path, "rmqserver", "broker", "--")


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_printed_and_installed(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("standalone", "controller", "ready-file", "async"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(["completion", shell, "--install"]) == 0
    said = capsys.readouterr()
    assert Path(said.out.strip()).read_text() == text
    assert ("fpath+=" in said.err) is (shell == "zsh")
    assert (f"in ~/.bashrc: . {said.out.strip()}" in said.err) is (shell == "bash")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    assert run(["completion", shell, "--install"]) == 2
    assert f"hint: rmqserver completion {shell} prints it" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("way", ["eval", "fpath"])
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_after_eval_and_from_fpath(tmp_path: Path, way: str) -> None:
    """After `eval` nothing was registered: the file only ran."""
    assert_zsh_completes(
        "rmqserver", completion("zsh", _parser().options_by_command), way, tmp_path,
        {"rmqserver stand": "rmqserver standalone", "rmqserver completion z": "rmqserver completion zsh"},
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_offers_commands_and_shells(tmp_path: Path) -> None:
    file = tmp_path / "rmqserver.fish"
    file.write_text(completion("fish", _parser().options_by_command))
    for line, words in (("rmqserver stand", ["standalone"]), ("rmqserver completion ", ["bash", "fish", "zsh"])):
        script = f"source {file}; complete -C {shlex.quote(line)}"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
        assert (done.stdout.split(), done.stderr) == (words, "")
