"""Alert rules: what a file may contain, the errors for wrong rules, and when an alert begins and ends."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.alerts.alert_rules import (
    UNKNOWN_VALUE,
    AlertRule,
    AlertState,
    Bounds,
    Condition,
    parse_alert_rules,
    read_alert_rules,
)
from rmqadmin.core.alerts.alerts_file import alerts_path, rules_in_force
from rmqproto.errors import UsageError

FILE = """
[[alert]]
when = "lag-time"
group = "billing-*"
above = "5m"
until = "1m"
for = "30s"
level = "critical"

[[alert]]
when = "lag"
above = 10_000
bell = false

[[alert]]
when = "disk"
above = "85%"

[[alert]]
when = "zero-rate"
topic = "orders"

[[alert]]
when = "broker-gone"

[[alert]]
when = "dead-letters"
above = 0
"""


def test_what_a_file_says() -> None:
    late, lag, disk, idle, gone, letters = parse_alert_rules(FILE)
    assert late == AlertRule(Condition.LAG_TIME, "group", "billing-*", 300_000, 60_000, 30_000, True)
    assert lag == AlertRule(Condition.LAG, "group", "*", 10_000, 10_000, bell=False)
    assert (disk.above, disk.about, idle.pattern, gone.about, letters.above) == (85, "broker", "orders", "broker", 0)
    assert late.is_for("billing-eu")
    assert not late.is_for("mailer")
    assert gone.is_for("broker-a/0")
    assert AlertRule(Condition.DISK, "broker", "broker-a").is_for("broker-a/1"), "every process of the name"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alert = 3", "alert is not a list of tables"),
        ("[alerts]", "alerts is unknown"),
        ("x", "Expected '=' after a key"),
        ("[[alert]]", "alert 1: when is missing"),
        ("[[alert]]\nwhen = []", "alert 1: when = []"),
        ("[[alert]]\nwhen = 'lag'", "alert 1: above is missing"),
        ("[[alert]]\nwhen = 'lag'\nabove = '5m'", "alert 1: above: '5m' is not a threshold here"),
        ("[[alert]]\nwhen = 'lag'\nabove = true", "alert 1: above = True"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\nuntil = 6", "alert 1: until must not be more than above"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\ngroups = 'x'", "alert 1: groups is unknown"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\ntopic = 'x'", "alert 1: lag takes no topic"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\ngroup = ''", "alert 1: group = ''"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\nfor = 3", "alert 1: for = 3"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\nfor = '-3s'", "alert 1: for = '-3s'"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\nlevel = 'loud'", "alert 1: level = 'loud'"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\nlevel = []", "alert 1: level = []"),
        ("[[alert]]\nwhen = 'lag'\nabove = 5\nbell = 1", "alert 1: bell = 1"),
        ("[[alert]]\nwhen = 'zero-rate'", "alert 1: zero-rate needs one of: topic, group, broker"),
        ("[[alert]]\nwhen = 'broker-gone'\nabove = 1", "alert 1: broker-gone takes no above"),
        ("[[alert]]\nwhen='broker-gone'\n" * 101, "there are 101 alerts, and at most 100 are allowed"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "alerts.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_alert_rules(path, must_exist=False)
    assert str(raised.value).startswith(f"{path}: ")
    assert said in str(raised.value)


def test_a_file_that_is_not_there_has_no_rules_unless_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert rules_in_force(None) == read_alert_rules(alerts_path(), must_exist=False) == ()
    with pytest.raises(UsageError, match="there is no such file"):
        rules_in_force(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="utf-8"):
        rules_in_force(tmp_path / "binary")
    for path in (alerts_path(), tmp_path / "other"):
        path.parent.mkdir(exist_ok=True)
        path.write_text('[[alert]]\nwhen = "broker-gone"\n')
    assert rules_in_force(None) == rules_in_force(tmp_path / "other")
    assert [rule.condition for rule in rules_in_force(None)] == [Condition.BROKER_GONE]


def turns(rule: AlertRule, *values: float | None) -> list[int]:
    """Feeds one value a second and returns the seconds in which the alert turned."""
    state = AlertState(rule)
    return [at for at, value in enumerate(values) if state.look(at * 1000, Bounds.exactly(value))]


RULE = AlertRule(Condition.LAG, "group", "*", above=10, until=5)


def test_an_alert_begins_above_and_ends_at_or_below_until() -> None:
    assert turns(RULE, 10, 11, 10, 6, 5, 6, 11) == [1, 4, 6]
    assert turns(AlertRule(Condition.LAG, "group", "*", 10, 5, for_ms=2000), 11, 11, 11, 4, 11, 5, 5, 5) == [2, 7]
    assert turns(RULE, 11, None, None, 3) == [0, 3], "what is unknown ends nothing"
    state = AlertState(RULE)
    assert not state.look(0, Bounds.at_most(99))
    assert state.look(1000, Bounds.at_least(11))
    assert not state.look(2000, Bounds.at_least(3)), "it may still be more"
    assert state.look(3000, Bounds.at_most(5))
    assert state.since_ms == 3000


VALUES = st.lists(st.none() | st.integers(0, 20), max_size=60)


@given(VALUES, st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
def test_hysteresis(values: list[int | None], one: int, other: int, for_s: int) -> None:
    """An alert turns only if all values of the last ``for_s`` seconds are beyond the threshold on its side. So values
    that swing between the two thresholds never turn it."""
    until, above = sorted((one, other))
    state = AlertState(AlertRule(Condition.LAG, "group", "*", above, until, for_s * 1000))
    turned_at = -1
    for at, value in enumerate(values):
        if not state.look(at * 1000, UNKNOWN_VALUE if value is None else Bounds.exactly(value)):
            continue
        last = values[at - for_s : at + 1]
        assert at - for_s > turned_at, "no value counts for two turns"
        assert all(each is not None and (each > above if state.is_on else each <= until) for each in last)
        assert state.since_ms == (at - for_s) * 1000
        turned_at = at
