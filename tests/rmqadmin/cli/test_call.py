"""What a command gets: its name server, its credentials, and whether it may ask."""

from pathlib import Path

import pytest

from rmqadmin.cli.call import Call, NotConfirmedError
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.core.contexts.context_store import ContextStore
from rmqproto.errors import UsageError
from rmqproto.wire.credentials import Credentials


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RMQADMIN_NAMESRV", "NAMESRV_ADDR", "RMQADMIN_ACCESS_KEY", "RMQADMIN_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)


def addrs(**options: str) -> list[str]:
    return Call("c", CommonOptions(**options)).admin.namesrv_addrs  # type: ignore[arg-type]


def test_the_name_server_is_the_options_then_ours_then_mqadmins_then_this_machines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert addrs() == ["127.0.0.1:9876"]
    assert Call("c", CommonOptions()).namesrv_addrs == ["127.0.0.1:9876"]
    assert "using 127.0.0.1:9876" in capsys.readouterr().err
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert addrs() == ["a:1", "b:2"]
    monkeypatch.setenv("RMQADMIN_NAMESRV", "c:3")
    assert addrs() == ["c:3"]
    assert addrs(namesrv_addr="d:4") == ["d:4"]
    assert capsys.readouterr().err == ""


def test_credentials_come_from_the_options_or_the_environment_and_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CommonOptions().settings().credentials() is None
    monkeypatch.setenv("RMQADMIN_ACCESS_KEY", "env")
    with pytest.raises(UsageError):
        CommonOptions().settings().credentials()
    monkeypatch.setenv("RMQADMIN_SECRET_KEY", "env-secret")
    assert CommonOptions().settings().credentials() == Credentials("env", "env-secret")
    assert CommonOptions(access_key="k", secret_key="s").settings().credentials() == Credentials("k", "s")


def test_in_another_context_nothing_is_left_of_what_was_said_of_servers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Above all, the user's keys and the unlocking of the first context must not carry over."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("NAMESRV_ADDR", "e:5")
    for name in ("dev", "live"):
        ContextStore().add(name, {"namesrv_addr": f"{name}:1", "read_only": True})
    options = CommonOptions(
        context="dev", namesrv_addr="f:6", access_key="k", secret_key="s", tls=True, unlock=True, timeout_s=3
    )
    first = Call("tui", options)
    assert (first.namesrv_addr, first.locked_by) == ("f:6", None)
    other = first.in_context("live")
    assert (other.namesrv_addr, other.locked_by) == ("live:1", "live")
    assert other.settings.credentials() is other.settings.tls() is None
    assert other.settings.setting("timeout_s").value == 3


def test_under_a_dry_run_the_client_itself_refuses_to_change_anything() -> None:
    admin = Call("c", CommonOptions(namesrv_addr="h:1", dry_run=True)).admin
    with pytest.raises(UsageError):
        admin.delete_topic_in_broker("h:1", "T")


@pytest.mark.parametrize(
    ("options", "is_terminal", "typed", "passes"),
    [
        (CommonOptions(), False, None, True),  # scripts still work
        (CommonOptions(), True, "T", True),
        (CommonOptions(), True, "t", False),
        (CommonOptions(), True, "", False),
        (CommonOptions(), True, None, False),
        (CommonOptions(yes=True), True, None, True),
        (CommonOptions(output="mqadmin"), True, None, True),
        (CommonOptions(dry_run=True), True, None, True),
    ],
)
def test_only_the_name_typed_at_a_terminal_is_a_yes(
    monkeypatch: pytest.MonkeyPatch, options: CommonOptions, is_terminal: bool, typed: str | None, passes: bool
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: is_terminal)
    monkeypatch.setattr("rmqadmin.cli.output.diagnostics.ask", lambda _question: typed)
    call = Call("c", options)
    if passes:
        call.confirm("This deletes.", "T")
    else:
        with pytest.raises(NotConfirmedError):
            call.confirm("This deletes.", "T")


def test_a_command_of_our_nouns_needs_a_yes_where_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """``commands/test_confirmation.py`` tries all of them on a broker."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    with pytest.raises(UsageError, match=r"This deletes\. Nobody can be asked to confirm it\.") as told:
        Call("user rm", CommonOptions()).confirm("This deletes.", "alice")
    assert told.value.hint == "--yes does it; --dry-run shows it."
    Call("user rm", CommonOptions()).confirm("This deletes.", "alice", is_said=True)
    Call("user rm", CommonOptions(yes=True)).confirm("This deletes.", "alice")
    Call("deleteTopic", CommonOptions()).confirm("This deletes.", "T")
    Call("resetOffset", CommonOptions()).confirm("This resets.", "g")
