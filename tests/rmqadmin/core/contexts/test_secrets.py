"""Keys by reference: they are found where the reference says, and appear in no message."""

import sys
from pathlib import Path

import pytest

from rmqadmin.core.contexts.settings_file import check_reference, read_secret
from rmqproto.errors import UsageError


@pytest.fixture
def told_by(tmp_path: Path) -> Path:
    path = tmp_path / "live.toml"
    path.touch(mode=0o600)
    return path


def test_a_key_is_in_the_environment_in_a_file_or_printed_by_a_program(
    told_by: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", " s3cret ")
    (told_by.parent / "key").write_text("from-file\n")
    words = f"{sys.executable} -c 'print(\"from program\")'"
    for reference, key in (
        ("env:KEY", "s3cret"),
        ("file:key", "from-file"),
        (f"file:{told_by.parent / 'key'}", "from-file"),
        (f"command:{words}", "from program"),
        ("command:echo a  b", "a b"),
        ("command:echo $HOME", "$HOME"),  # no shell
    ):
        assert read_secret(reference, "secret_key", told_by) == key


def test_a_program_does_not_read_what_is_meant_for_us(told_by: Path) -> None:
    with pytest.raises(UsageError, match="nothing"):
        read_secret("command:cat", "secret_key", told_by)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("env:NO_SUCH_VARIABLE", "the environment has no NO_SUCH_VARIABLE"),
        ("file:missing", "No such file"),
        ("file:.", "Is a directory"),
        ("file:long", "too large"),
        ("file:bytes", "UTF-8"),
        ("file:two", "more than one line"),
        ("file:empty", "gives nothing"),
        ("command:no-such-program x", "no-such-program: No such file"),
        ("command:false", "false ended with status 1"),
        ("command:echo 'x", "no closing quotation"),
        ("command:printf \\\\377", "UTF-8"),
    ],
)
def test_a_reference_that_leads_nowhere_says_which_and_why(told_by: Path, reference: str, said: str) -> None:
    folder = told_by.parent
    (folder / "long").write_text("x" * 100_000)
    (folder / "bytes").write_bytes(b"\xff")
    (folder / "two").write_text("hunter2\nhunter3")
    (folder / "empty").write_text(" \n")
    with pytest.raises(UsageError) as caught:
        read_secret(reference, "secret_key", told_by)
    text = str(caught.value)
    assert said in text
    assert "live.toml" in text
    assert "hunter" not in text


@pytest.mark.parametrize("text", ["hunter2", "env:", "file: ", "pass:hunter2", ""])
def test_a_key_itself_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_reference(text, "secret_key")
    assert "env:NAME, file:PATH or command:WORDS" in str(caught.value)
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"


def test_no_program_is_started_for_a_file_that_others_can_write(told_by: Path, tmp_path: Path) -> None:
    told_by.chmod(0o660)
    with pytest.raises(UsageError, match="others can write") as caught:
        read_secret(f"command:touch {tmp_path / 'started'}", "secret_key", told_by)
    assert caught.value.hint == f"chmod 600 {told_by}"
    assert not (tmp_path / "started").exists()
