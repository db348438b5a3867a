"""Files of thousands of levels, and files that begin with a mark."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqadmin.commands.users import stdin_password
from rmqadmin.core import audit_trail, files
from rmqadmin.core.alerts.alert_rules import parse_alert_rules, read_alert_rules
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings_file import read_secret
from rmqadmin.core.files import parse_toml
from rmqadmin.core.messages.importing import progress_file
from rmqproto.errors import StorageError, UsageError
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh

JSON = '{"a":' * 20_000
TOML = "namesrv_addr = " + "[" * 20_000
NOBODY = ("-b", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("updateTopicList", *NOBODY, "-f", "{file}"), "is not JSON"),
        (("updateSubGroupList", *NOBODY, "-f", "{file}"), "is not JSON"),
        (("updateSubGroup", *NOBODY, "-g", "G", "-p", '{"customizedRetryPolicy":' + JSON), "is not a retry policy"),
        (("resetOffset", "--undo", "{file}"), "is not an undo file"),
    ],
)
def test_json(run: Rmqadmin, tmp_path: Path, command: tuple[str, ...], said: str) -> None:
    (tmp_path / "file").write_text(JSON)
    run(*(word.replace("{file}", str(tmp_path / "file")) for word in command), status=2, out="", err=said)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("updateTopicList -b 127.0.0.1:1 -f", "is empty"),
        ("updateSubGroupList -b 127.0.0.1:1 -f", "is empty"),
        ("diff -f", "has no section"),
        ("remappingStaticTopic -t T -b broker-a -mf", "is not a mapping of a static topic"),
    ],
)
def test_an_empty_file_and_one_that_is_missing(rmqadmin: Rmqadmin, tmp_path: Path, command: str, said: str) -> None:
    """A list without anything was "not JSON: Input data was truncated"; a missing mapping, a refusal of a server's."""
    (tmp_path / "empty").write_text("\n")
    rmqadmin(*command.split(), str(tmp_path / "empty"), status=2, out="", err=said)
    rmqadmin(*command.split(), str(tmp_path / "missing"), status=2, out="", err="cannot read")


def test_a_log_that_is_missing(run: Rmqadmin, tmp_path: Path) -> None:
    run(
        "dumpCompactionLog", "-f", str(tmp_path / "missing"), status=2, out="", err="missing: No such file or directory"
    )


def test_the_progress_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(JSON)
    with pytest.raises(StorageError, match="cannot be read"):
        progress_file.load(tmp_path / "file")


def test_a_line_of_the_log_of_changes(run: Rmqadmin) -> None:
    path = Path(audit_trail.log_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JSON + "\n")
    run("audit", status=0, err="1 line of the log cannot be read")


def test_a_context_does_not_hide_the_others(run: Rmqadmin) -> None:
    ContextStore().add("whole", {"namesrv_addr": "h:1"})
    ContextStore().path("deep").write_text(TOML)
    rows = {row["context"]: row["problem"] for row in run("-o", "json", "context", "ls").items}
    assert "more levels than can be read" in rows["deep"]
    assert rows["whole"] is None
    run("--context", "deep", "topicList", status=2, err="`rmqadmin context edit deep`")


def test_rules_of_alerts() -> None:
    with pytest.raises(UsageError):
        parse_alert_rules(TOML)


MARK = "\ufeff"


@pytest.fixture
def marked(tmp_path: Path) -> Callable[[str, str], str]:
    """``marked("list.json", text)``: the path of a file that begins with a mark."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        return str(path)

    return write


def test_lists_and_manifests(
    rmqadmin: Rmqadmin, fresh: Fresh, marked: Callable[[str, str], str]
) -> None:  # fmt: skip
    topic, group = fresh("MarkedTopic"), fresh("MarkedGroup")
    topics = marked("topics.json", f'[{{"topicName": "{topic}", "readQueueNums": 2, "writeQueueNums": 2}}]')
    groups = marked("groups.json", f'[{{"groupName": "{group}"}}]')
    assert rmqadmin("updateTopicList", "-c", CLUSTER, "-f", topics).status == 0
    assert rmqadmin("updateSubGroupList", "-c", CLUSTER, "-f", groups).status == 0
    for name, text in (("a.yaml", f"topics: {{{topic}: {{}}}}"), ("a.json", f'{{"groups": {{"{group}": {{}}}}}}')):
        assert rmqadmin("diff", "-c", CLUSTER, "-f", marked(name, text)).status == 0


def test_settings_contexts_and_alerts(run: Rmqadmin, marked: Callable[[str, str], str], tmp_path: Path) -> None:
    marked("config/rmqadmin/config.toml", 'output = "json"\n')
    marked("config/rmqadmin/contexts/live.toml", 'namesrv_addr = "10.0.0.1:9876"\n')
    assert run("config", "validate").document["items"][0]["settings"] == ["output"]
    assert run("context", "edit", "live", "--color", "red").status == 0
    assert run("context", "show", "live").status == 0
    alerts = marked("alerts.toml", '[[alert]]\nwhen = "lag"\ngroup = "*"\nabove = 5\n')
    assert len(read_alert_rules(Path(alerts), must_exist=True)) == 1
    assert parse_toml(f"{MARK}a = 1") == {"a": 1}


def test_secrets(marked: Callable[[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could log in with a password that begins with an invisible character."""
    path = marked("secret", "s3cret\n")
    assert read_secret(f"file:{path}", "secret_key", tmp_path / "context.toml") == "s3cret"
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{MARK}s3cret\n"))
    assert stdin_password(None) == "s3cret"


def test_text_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_bytes("[]".encode("utf-16"))
    with pytest.raises(UsageError, match="is UTF-16 text"):
        files.read_text(path)
    path.write_bytes(b"[\n\xff]")
    with pytest.raises(UsageError, match=r"is not UTF-8 text \(line 2\)"):
        files.read_text(path)
