"""Files and values of more levels than Python's stack has are refused like any other wrong text. They ended commands
with a RecursionError, "a defect"."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqadmin.core.alerts.alert_rules import parse_alert_rules
from rmqadmin.core.audit import audit_log
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.messages.importing import progress_file
from rmqproto.errors import StorageError, UsageError
from tests.rmqadmin.conftest import Rmqadmin

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
    ran = run(*(word.replace("{file}", str(tmp_path / "file")) for word in command))
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_the_progress_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(JSON)
    with pytest.raises(StorageError, match="cannot be read"):
        progress_file.load(tmp_path / "file")


def test_a_line_of_the_log_of_changes(run: Rmqadmin) -> None:
    path = Path(audit_log.log_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JSON + "\n")
    ran = run("audit")
    assert ran.status == 0
    assert "1 line of the log cannot be read" in ran.err


def test_a_context_does_not_hide_the_others(run: Rmqadmin) -> None:
    ContextStore().add("whole", {"namesrv_addr": "h:1"})
    ContextStore().path("deep").write_text(TOML)
    rows = {row["context"]: row["problem"] for row in run("-o", "json", "context", "ls").items}
    assert "more levels than can be read" in rows["deep"]
    assert rows["whole"] is None
    ran = run("--context", "deep", "topicList")
    assert ran.status == 2
    assert "`rmqadmin context edit deep`" in ran.err


def test_rules_of_alerts() -> None:
    with pytest.raises(UsageError):
        parse_alert_rules(TOML)
