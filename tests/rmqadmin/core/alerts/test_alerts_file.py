"""Which file of alert rules is read."""

from pathlib import Path

import pytest

from rmqadmin.core.alerts.alert_rules import Condition
from rmqadmin.core.alerts.alerts_file import alerts_path, rules_in_force
from rmqproto.errors import UsageError

RULE = '[[alert]]\nwhen = "broker-gone"\n'


def test_the_own_file_is_read_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert rules_in_force(None) == ()
    alerts_path().parent.mkdir(parents=True)
    alerts_path().write_text(RULE)
    assert [rule.condition for rule in rules_in_force(None)] == [Condition.BROKER_GONE]


def test_a_file_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        rules_in_force(tmp_path / "alerts.toml")
    (tmp_path / "alerts.toml").write_text(RULE)
    assert len(rules_in_force(tmp_path / "alerts.toml")) == 1
