"""What a script needs ``--yes`` for: a table over all commands of our noun groups that change something, so that a new
one cannot be forgotten."""

import io
from pathlib import Path

import pytest

from rmqadmin.cli import registry
from rmqadmin.cli.registry import Effect, Entry
from tests.rmqadmin.conftest import Ran, Rmqadmin
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server

CHANGES_SOMETHING = [
    entry
    for entry in registry.ENTRIES
    if entry.needs_yes and (entry.effect in registry.CHANGING or entry.effect is Effect.SETTINGS)
]

NEEDS_YES = {
    "acl grant": "acl grant alice Pub Topic:T --deny",  # replaces the entry that allows
    "acl revoke": "acl revoke alice Sub Topic:T",
    "bench latency": "bench latency T --duration 0.1 --warm-up 0",
    "bench send": "bench send T --duration 0.1 --warm-up 0",
    "context rm": "context rm here",
    "msg import": "msg import {file}",
    "server reset": "server reset",
    "snapshot restore": "snapshot restore a-day",
    "snapshot save": "snapshot save a-day",  # replaces the older one
    "topic delete": "topic delete T",
    "user rm": "user rm alice",
}
"""Command lines that delete, overwrite or send again."""

ACTS_AT_ONCE = {
    "context add": "refuses a name that is there",
    "context edit": "changes what its options name, in a file of this program",
    "context use": "`context use -` goes back",
    "dlq redrive": "only with --execute, which says yes",
    "fault clear": "rules are all it takes away; its answer shows them, and tests clean up with it",
    "fault set": "as fault clear",
    "msg send": "sends what was never sent",
    "topic create": "refuses a name that is there, or leaves it as it is",
    "user add": "refuses a name that is there",
    "user edit": "changes what its options name; a password is typed or piped on purpose",
}
"""Commands that take nothing away, with the reason."""


def test_each_command_of_ours_either_needs_a_yes_or_has_a_reason() -> None:
    assert not NEEDS_YES.keys() & ACTS_AT_ONCE.keys()
    assert NEEDS_YES.keys() | ACTS_AT_ONCE.keys() == {entry.name for entry in CHANGES_SOMETHING}


def test_what_destroys_always_needs_a_yes() -> None:
    destroying = {entry.name for entry in CHANGES_SOMETHING if entry.effect is Effect.DESTROY}
    assert destroying <= NEEDS_YES.keys()


broker = servers.of_module("--test-requests", "on")


@pytest.fixture
def ready(run: Rmqadmin, broker: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rmqadmin:
    """Runs command lines on a broker that has a user, an entry, a topic with a message and a snapshot; beside it are a
    context and a file of messages."""
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv_addr)

    def done(*words: str) -> None:
        run(*words, status=0)

    done("server", "reset", "--yes")
    done("updateTopic", "-t", "T", "-c", "DefaultCluster")
    done("msg", "send", "T", "body")
    done("msg", "export", "T", str(tmp_path / "kept.jsonl"), "--overwrite")
    monkeypatch.setattr("sys.stdin", io.StringIO("first\n"))
    done("user", "add", "alice", "--password-stdin", "--if-not-exists")
    done("acl", "grant", "alice", "Sub", "Topic:T", "--from", "10.0.0.1", "--yes")
    done("snapshot", "save", "a-day", "--yes")
    done("context", "add", "here", "-n", broker.namesrv_addr, "--if-not-exists")
    return run


def state(run: Rmqadmin) -> list[str]:
    asked = ["user ls", "acl ls", "topicStatus -t T", "snapshot ls", "context ls"]
    return [run("--quiet", *words.split(), "--output", "csv").out for words in asked]


@pytest.mark.parametrize("name", first_is_quick(NEEDS_YES, 4))
def test_without_a_yes_a_script_changes_nothing(
    ready: Rmqadmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    before = state(ready)
    words = NEEDS_YES[name].format(file=tmp_path / "kept.jsonl").split()

    def ran_with(*more: str) -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO("second\n"))
        return ready(*words, *more)

    ran = ran_with()
    assert (ran.status, ran.out) == (2, ""), ran.err
    entry = registry.find(name)
    assert isinstance(entry, Entry)
    assert "This " in ran.err or "lost" in ran.err
    assert "Nobody can be asked to confirm it." in ran.err
    shows = "; --dry-run shows it" if entry.has_dry_run else ""
    assert f"hint: --yes does it{shows}." in ran.err
    assert state(ready) == before
    if entry.has_dry_run:
        assert ran_with("--dry-run").status == 0
        assert state(ready) == before
    assert ran_with("--yes").status == 0


def test_where_there_is_nothing_to_take_away_no_yes_is_needed(ready: Rmqadmin) -> None:
    assert ready("user", "rm", "nobody", "--if-exists").status == 0
    assert ready("acl", "revoke", "alice", "Pub", "Topic:Other", "--if-exists").status == 0
    assert ready("acl", "grant", "alice", "Pub", "Topic:T", "--from", "10.0.0.1").status == 0
    assert ready("snapshot", "save", "b-day").status == 0


def test_mqadmins_own_commands_act_in_scripts_as_before(ready: Rmqadmin) -> None:
    assert ready("deleteTopic", "-t", "T", "-c", "DefaultCluster").status == 0


@pytest.mark.parametrize(
    "line", ["topic create New", "resetOffset -g g -t T --to begin", "user rm alice --yes", "context rm here --yes"]
)
def test_what_mqadmin_cannot_show_is_not_done(ready: Rmqadmin, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """It was done, and then ended with status 2 because it could not be shown."""
    before = state(ready)
    monkeypatch.setenv("RMQADMIN_OUTPUT", "mqadmin")
    ran = ready(*line.split())
    assert (ran.status, "nothing was done" in ran.err) == (2, True)
    assert state(ready) == before
    assert ready("topicStatus", "-t", "New").status == 5
