"""``context`` and ``config`` on the command line, with two clusters to choose from, and ``docs/contexts.md``."""

from pathlib import Path

import pytest

from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import KINDS, config_path
from tests.rmqadmin.conftest import Rmqadmin, Terminal, status
from tests.rmqadmin.pages.page_lines import ROOT, run_lines
from tests.support.servers import Server


@pytest.fixture
def both(run: Rmqadmin, server: Server, other: Server) -> Rmqadmin:
    """``here`` is the shared server, ``there`` the other. ``here`` is in use."""
    assert run("context", "add", "here", "-n", server.namesrv_addr, "--use").status == 0
    assert run("context", "add", "there", "-n", other.namesrv_addr, "-c", "Other", "--color", "red").status == 0
    return run


def clusters(run: Rmqadmin, *args: str) -> list[str]:
    ran = run("-o", "json", *args[:-1], args[-1], status=0)
    return sorted({item["cluster"] for item in ran.items})


def test_commands_go_where_the_context_says(both: Rmqadmin, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clusters(both, "clusterList") == ["DefaultCluster"]
    assert both("context", "use", "there").status == 0
    assert clusters(both, "clusterList") == ["Other"]
    assert both("context", "use", "-").status == 0
    assert clusters(both, "clusterList") == ["DefaultCluster"]
    assert clusters(both, "--context", "there", "clusterList") == ["Other"]
    monkeypatch.setenv("RMQADMIN_CONTEXT", "there")
    assert clusters(both, "clusterList") == ["Other"]
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)
    assert clusters(both, "clusterList") == ["DefaultCluster"]
    assert clusters(both, "--context", "there", "clusterList") == ["Other"]
    ran = both("-o", "json", "clusterList", "--context", "there", "-n", server.namesrv_addr)
    assert {item["cluster"] for item in ran.items} == {"DefaultCluster"}


def test_the_notice_about_a_name_server_is_gone_with_a_context(both: Rmqadmin) -> None:
    assert both("topicList").err == ""
    assert "using 127.0.0.1:9876" in both("--context", "none", "topicList", "--timeout", "0.001").err


def test_a_contexts_cluster_is_that_of_commands_that_need_one(both: Rmqadmin, other: Server, server: Server) -> None:
    """The context's cluster counts only where mqadmin requires a cluster or a broker and none is given."""
    assert both("context", "use", "there").status == 0
    assert both("updateTopic", "-t", "OfContext", "-r", "1", "-w", "1").status == 0
    assert other.broker_addr in both("getBrokerConfig", "-o", "json").out
    assert both("deleteTopic", "-t", "OfContext").status == 0  # -c is required here
    assert both("updateTopic", "-t", "OfContext", "-c", "No").status == 5
    both("brokerStatus", "-b", server.broker_addr, status=0)  # a broker of another cluster
    assert both("context", "use", "here").status == 0
    assert both("brokerStatus").status == 0, "the only cluster there"
    assert "there is no topic OfContext in DefaultCluster" in both("deleteTopic", "-t", "OfContext").err


def test_contexts_are_listed_with_the_one_in_use(both: Rmqadmin, server: Server) -> None:
    ContextStore().path("there").write_text("nonsense")
    here, there = both("-o", "json", "context", "ls").items
    assert (here["context"], here["in_use"], here["namesrv_addr"]) == ("here", True, server.namesrv_addr)
    assert (there["context"], there["in_use"]) == ("there", False)
    assert "there.toml:1:" in there["problem"]
    assert both("-o", "name", "context", "ls").out == "here\nthere\n"


def test_a_script_may_add_a_context_again(both: Rmqadmin, server: Server) -> None:
    again = ("context", "add", "here", "-n", "127.0.0.1:1")
    assert "With --if-not-exists" in both(*again).err
    ran = both("-o", "json", *again, "--if-not-exists", "--use")
    assert (ran.status, ran.items[0]["namesrv_addr"]) == (0, server.namesrv_addr)
    assert both(*again[:2], "new", *again[3:], "--if-not-exists").status == 0
    assert ContextStore().names() == ["here", "new", "there"]


def test_one_that_is_broken_is_mended_by_name_of_line(both: Rmqadmin) -> None:
    path = ContextStore().path("here")
    path.write_text(path.read_text() + "protectd = true\n")
    ran = both("topicList", status=2, out="")
    assert ran.err.splitlines() == [
        f"rmqadmin: error: {path}:3: there is no setting 'protectd'",
        "hint: Did you mean protected? `rmqadmin context edit here` opens the file.",
    ]
    assert both("context", "ls").status == 0
    assert both("topicList", "--context", "none", "-n", "127.0.0.1:1").status == 3  # a broken context locks nobody in


def test_show_has_what_the_file_says_and_edit_changes_it(both: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ("--protected", "--timeout", "9", "-ak", "env:A", "-sk", "command:pass live", "--tls-ca", "ca.pem")
    monkeypatch.chdir("/tmp")
    assert both("context", "edit", "here", *args).status == 0
    shown = {item["setting"]: item["value"] for item in both("-o", "json", "context", "show").items}
    assert shown["protected"] == "true"
    assert shown["timeout_s"] == "9"
    assert (shown["access_key"], shown["secret_key"]) == ("env:A", "command:pass live")
    assert shown["tls_ca"] == "/tmp/ca.pem"
    taken = ("--no-protected", *(word for key in ("access_key", "secret_key") for word in ("--unset", key)))
    assert both("context", "edit", "here", *taken).status == 0
    shown = {item["setting"]: item["value"] for item in both("-o", "json", "context", "show", "here").items}
    assert shown["protected"] == "false"
    assert "access_key" not in shown
    assert both("context", "show", "none").status == 2
    assert both("context", "show", "nowhere").status == 5


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (("add", "new"), 2, "Missing required option: -n"),
        (("add", "new", "-n", "h:x"), 2, "not an address"),
        (("add", "new", "-n", "h:1", "-sk", "hunter2"), 2, "holds no key"),
        (("add", "here", "-n", "h:1"), 2, "already"),
        (("edit", "nowhere", "--tls"), 5, "no context nowhere"),
        (("edit", "here", "--unset", "tsl"), 2, "no such setting"),
        (("edit", "here"), 2, "needs a terminal"),
        (("use", "nowhere"), 5, "no context nowhere"),
        (("rm", "nowhere"), 5, "no context nowhere"),
        (("rm", "../here"), 2, "cannot be the name"),
    ],
)
def test_what_cannot_be_done_is_said(both: Rmqadmin, args: tuple[str, ...], status: int, said: str) -> None:
    ran = both("context", *args, status=status, out="", err=said)
    assert "hunter2" not in ran.err
    assert ContextStore().names() == ["here", "there"]


def test_a_context_that_is_removed_is_not_in_use(both: Rmqadmin) -> None:
    ran = both("context", "rm", "here", "--yes")
    assert (ran.status, ran.err) == (0, "rmqadmin: no context is in use now\n")
    assert ContextStore().names() == ["there"]
    ran = both("context", "show")
    assert (ran.status, "no context is in use" in ran.err) == (5, True)


def test_a_relative_file_of_a_key_is_that_of_the_shell(both: Rmqadmin, tmp_path: Path, server: Server) -> None:
    """A relative path counts from the shell's directory, not from the contexts' directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        Path("ak").write_text("ak")
        Path("sk").write_text("sk")
        assert both("context", "edit", "here", "-ak", "file:ak", "-sk", "file:sk").status == 0
    assert both("topicList").status == 0
    Path(tmp_path / "sk").unlink()
    assert "sk: No such file" in both("topicList").err


def test_config_show_says_where_each_setting_comes_from(both: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    config_path().write_text("timeout_s = 7\n")
    monkeypatch.setenv("RMQADMIN_SECRET_KEY", "hunter2")
    ran = both("-o", "json", "config", "show", "--origin", "--context", "there", "--tls")
    found = {item["setting"]: (item["value"], item["origin"], item["source"]) for item in ran.items}
    path = ContextStore().path("there")
    assert found["context"] == ("there", "flag", "--context")
    assert found["cluster"] == ("Other", "context", f"{path}:3")
    assert found["timeout_s"] == ("7", "file", f"{config_path()}:1")
    assert found["tls"] == ("true", "flag", "--tls")
    assert found["pager"] == ("less", "default", "built in")
    assert found["secret_key"] == ("(not shown)", "environment", "RMQADMIN_SECRET_KEY")
    assert "hunter2" not in ran.out
    assert "ORIGIN" not in both("config", "show").out


def test_the_file_of_settings_is_gone_by_and_checked(both: Rmqadmin) -> None:
    config_path().write_text("output = 'name'\ntimeout_s = 0.001\n")
    assert both("context", "ls").out == "here\nthere\n"
    config_path().write_text("output = 'json'\n")
    for wrong in (("nope",), ("topicList", "--nope"), ("topicRoute",), ("context", "show", "nowhere")):
        assert '"exit_code"' in both(*wrong).err
    config_path().write_text("output = 'name'\ntimeout_s = 0.001\n")
    assert both("-o", "json", "config", "validate").items[0]["settings"] == ["output", "timeout_s"]
    for text, said in (
        ("output = 'jsn'\n", "config.toml:1: 'jsn' is not an output format"),
        ("\ncolor = 'pink'\n", "config.toml:2: color must be one of auto, always, never"),
        ("timeout = 3\n", "config.toml:1: there is no setting 'timeout'"),
    ):
        config_path().write_text(text)
        ran = both("config", "validate")
        assert (ran.status, said in ran.err) == (2, True), ran.err
    config_path().unlink()
    assert both("-o", "json", "config", "validate").items[0]["exists"] is False


def test_what_the_environment_chooses_is_what_is_in_use_here(both: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    """`context ls` used to mark the context that `context use` chose, whatever context commands used. `context use` did
    not say that the environment overrides it here."""
    assert both("-o", "json", "--context", "there", "context", "show").document["summary"]["context"] == "there"
    monkeypatch.setenv("RMQADMIN_CONTEXT", "there")
    listed = {item["context"]: item["in_use"] for item in both("-o", "json", "context", "ls").items}
    assert listed == {"here": False, "there": True}
    assert both("-o", "json", "context", "show").document["summary"] | {"path": ""} == {
        "context": "there", "in_use": True, "path": "",
    }  # fmt: skip
    ran = both("context", "use", "here")
    assert (ran.status, ran.err) == (0, "rmqadmin: RMQADMIN_CONTEXT=there is set here and takes precedence\n")
    assert both("context", "use", "there").err == ""
    monkeypatch.setenv("RMQADMIN_CONTEXT", "none")
    assert not any(item["in_use"] for item in both("-o", "json", "context", "ls").items)
    assert both("context", "show").status == 5


def test_a_variable_that_names_other_name_servers_is_told(
    both: Rmqadmin, terminal: Terminal, server: Server, other: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NAMESRV_ADDR silently won over the context, and `context ls` still said `yes`."""
    (listed,) = [row for row in both("-o", "json", "context", "ls").items if row["in_use"]]
    assert listed["overruled_by"] is None
    assert both("context", "use", "there").status == 0
    child = terminal("topicClusterList", "-t", "TBW102")  # with NAMESRV_ADDR of the shared server
    assert status(child) == 0
    said = " ".join((child.before or "").split())
    assert f"NAMESRV_ADDR={server.namesrv_addr} counts here, not the context there ({other.namesrv_addr})" in said
    assert said.count("counts here") == 1
    assert status(quiet := terminal("--context", "there", "topicClusterList", "-t", "TBW102")) == 0
    assert "counts here" not in (quiet.before or "")
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv_addr)
    assert both("topicClusterList", "-t", "TBW102").err == "", "a script knows what it sets"
    rows = {row["context"]: row["overruled_by"] for row in both("-o", "json", "context", "ls").items}
    assert rows == {"here": None, "there": f"NAMESRV_ADDR={server.namesrv_addr}"}
    assert "NAMESRV_ADDR" in both("context", "use", "there").err
    assert both("context", "use", "here").err == "", "they are the same"


def test_the_examples_of_the_page_work_in_their_order(
    run: Rmqadmin, server: Server, other: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    meant = {"127.0.0.1:9876": server.namesrv_addr, "127.0.0.1:9877": other.namesrv_addr}
    assert len(run_lines(run, "docs/contexts.md", meant, monkeypatch)) > 25


def test_the_pages_table_has_every_setting_with_its_flag_and_variables() -> None:
    def quoted(*names: str) -> str:
        return ", ".join(f"`{name}`" for name in names if name)

    rows = [f"| {quoted(kind.key)} | {quoted(kind.flag)} | {quoted(*kind.variables)} |" for kind in KINDS]
    table = "\n".join(["| setting | flag | environment |", "|---|---|---|", *rows])
    assert table in (ROOT / "docs/contexts.md").read_text(), table
