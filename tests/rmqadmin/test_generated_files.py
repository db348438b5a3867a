"""Shells complete command lines, and the manual is made."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqadmin.cli import program, registry
from rmqadmin.cli.manual.__main__ import write
from rmqadmin.cli.manual.pages import ManPage, Prose, section, terms
from rmqadmin.cli.shells import names_cache
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import config_path
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.quick import first_is_quick
from tests.support.zsh import assert_zsh_completes

ROOT = Path(__file__).parent.parent.parent
NAMES = {"topic": ["OrderTopic", "OtherTopic"], "group": ["OrderGroup"], "broker": ["127.0.0.1:10911"]}

BASH = """
source {file}
COMP_LINE={line}
COMP_POINT=${{#COMP_LINE}}
_rmqadmin rmqadmin
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def test_the_manual_has_a_page_for_each_command_in_roff_that_nobody_warns_of(tmp_path: Path) -> None:
    """Like `man --warnings`: groff reports everything that it stumbles over. A page of a command that is no more
    goes."""
    (tmp_path / "rmqadmin-gone.1").touch()
    write(tmp_path)
    pages = sorted(tmp_path.iterdir())
    assert len(pages) == len(registry.ENTRIES) + 1
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("there is no groff, which would say what is wrong with the roff")
    checked = subprocess.run([groff, "-man", "-ww", "-z", "-Tutf8", *pages], capture_output=True, text=True, check=True)
    assert checked.stderr == ""


def test_a_page_says_in_roff_and_in_text_what_it_says() -> None:
    page = ManPage(
        "rmqadmin-x", (section("A", Prose(".dot \\ 'and' `--flag` é"), terms([("-x N", "so many")])),), "now"
    )
    assert page.roff().splitlines()[1:] == [
        '.SH "A"', r"\&.dot \(rs \(aqand\(aq \fB\-\-flag\fR \[u00E9]", ".TP", r"\fB\-x N\fR", "so many",
    ]  # fmt: skip
    assert "".join(page.text(60)) == ("A\n       .dot \\ 'and' --flag é\n\n       -x N\n              so many\n")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path))
    for kind, names in NAMES.items():
        names_cache.remember(["127.0.0.1:9876"], kind, names)
    return tmp_path


def shell_environment() -> dict[str, str]:
    """That of a user who has installed the program."""
    kept = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    return {**found, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def complete(*words: str, **environment: str) -> list[str]:
    """What bash would insert, without what it keeps of the last word: it breaks words at = and :."""
    line = " ".join(words)
    script = BASH.format(file=ROOT / "rmqadmin/cli/shells/rmqadmin.bash", line=shlex.quote(line))
    env = shell_environment() | environment
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=env)
    assert done.stderr == ""
    return done.stdout.split()


Complete = Callable[..., list[str]]


@pytest.fixture
def offered(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """``offered("topicRoute", "-t", "")``: the words that the program offers to any shell, with these variables."""

    def ask(*words: str, **environment: str) -> list[str]:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            line = " ".join(["rmqadmin", *words])
            assert program.run(["-o", "table", "completion", "--at", line]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return [line.partition("\t")[0] for line in out.splitlines()]

    return ask


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("words", "completed"),
    first_is_quick([
        (("topicR",), ["topicRoute"]),
        (("-o", "js"), ["json", "jsonl"]),
        (("--color", ""), ["auto", "always", "never"]),
        (("topicRoute", "--output=c"), ["csv"]),
        (
            ("topicRoute", "--output="),
            ["table", "wide", "json", "jsonl", "yaml", "csv", "tsv", "name", "schema", "mqadmin"],
        ),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("topicroute", "--output", "t"), ["table", "tsv"]),
        (("-o", "json", "topicRoute", "-t", "Ord"), ["OrderTopic"]),
        (("consumerProgress", "-g", ""), ["OrderGroup"]),
        (("updateTopic", "-o", ""), ["true", "false"]),
        (("updateTopic", "-r", ""), []),
        (("updateTopic", "--dr"), ["--dry-run"]),
        (("clusterList", "--watch", "--outp"), ["--output"]),
        (("brokerStatus", "-b", ""), ["127.0.0.1:10911"]),
        (("brokerStatus", "-b", "127.0.0.1:1"), ["10911"]),
        (("msg", "cat", "Ord"), ["OrderTopic"]),
        (("msg", "cat", ""), ["OrderTopic", "OtherTopic"]),
        (("msg", "cat", "OrderTopic", "--since-"), []),
        (("msg", "cat", "OrderTopic", "--sin"), ["--since"]),
        (("dlq", "show", "Ord"), ["OrderGroup"]),
        (("topicList", "Ord"), []),
    ], 8),
)  # fmt: skip
def test_bash_offers_commands_options_values_and_names(words: tuple[str, ...], completed: list[str]) -> None:
    assert complete("rmqadmin", *words) == completed


def test_names_are_those_of_the_cluster_that_the_command_will_ask(offered: Complete) -> None:
    """The names of all clusters used to be offered together."""
    names_cache.remember(["10.0.0.1:9876", "10.0.0.2:9876"], "topic", ["Elsewhere"])
    there = "10.0.0.1:9876;10.0.0.2:9876"
    assert offered("topicRoute", "-t", "") == NAMES["topic"]
    assert offered("topicRoute", "-n", there, "-t", "") == ["Elsewhere"]
    names_cache.remember(["10.0.0.3:9876"], "topic", ["Third"])
    assert offered("topicRoute", "--namesrvAddr=10.0.0.3:9876", "-t", "") == ["Third"]
    assert offered("topicRoute", "-t", "", NAMESRV_ADDR=there) == ["Elsewhere"]
    assert offered("topicRoute", "-t", "", RMQADMIN_NAMESRV="h:1", NAMESRV_ADDR=there) == []


def test_names_are_those_of_the_context_that_the_command_will_ask(offered: Complete) -> None:
    store, there = ContextStore(), "10.0.0.1:9876;10.0.0.2:9876"
    names_cache.remember(there.split(";"), "topic", ["Elsewhere"])
    names_cache.remember(["10.0.0.3:9876"], "topic", ["Third"])
    store.add("live", {"namesrv_addr": there})
    store.add("third", {"cluster": "A", "namesrv_addr": "10.0.0.3:9876"})
    assert offered("topicRoute", "-t", "") == NAMES["topic"]
    assert offered("topicRoute", "--context", "live", "-t", "") == ["Elsewhere"]
    assert offered("--context=third", "topicRoute", "-t", "") == ["Third"]
    store.use("live")
    assert offered("topicRoute", "-t", "") == ["Elsewhere"]
    assert offered("topicRoute", "-t", "", RMQADMIN_CONTEXT="third") == ["Third"]
    assert offered("topicRoute", "-t", "", NAMESRV_ADDR="127.0.0.1:9876") == NAMES["topic"]
    assert offered("topicRoute", "--context", "live", "-t", "", NAMESRV_ADDR="h:1") == ["Elsewhere"]
    assert offered("topicRoute", "--context", "none", "-t", "") == NAMES["topic"]
    store.use("none")
    assert offered("topicRoute", "-t", "") == NAMES["topic"]
    config_path().write_text('# ours\n  namesrv_addr = "10.0.0.3:9876"  # third\n')
    assert offered("topicRoute", "-t", "") == ["Third"]


def test_contexts_are_offered_by_name(offered: Complete) -> None:
    store = ContextStore()
    for command in (("--context",), ("topicList", "--context"), ("context", "rm"), ("context", "use")):
        assert [word for word in offered(*command, "") if not word.startswith("-")] in ([], ["none"])
    for name in ("live", "dev", "dev.2"):
        store.add(name, {"namesrv_addr": "h:1"})
    (store.folder / "$(id).toml").touch()
    assert offered("--context", "") == ["dev", "dev.2", "live"]
    assert offered("topicList", "--context", "l") == ["live"]
    assert offered("context", "show", "l") == ["live"]
    assert offered("context", "use", "n") == ["none"]
    assert "live" not in offered("context", "add", "")


def test_every_command_and_every_option_of_one_is_offered(offered: Complete) -> None:
    assert set(offered("")) >= set(registry.top_level_names())
    assert {"--topic", "--watch", "--until", "--namesrvAddr", "--help"} <= set(offered("topicStatus", "-"))


def fish(line: str) -> list[str]:
    """What fish offers for a line, without the descriptions."""
    script = f"source {ROOT / 'rmqadmin/cli/shells/rmqadmin.fish'}; complete -C {shlex.quote(line)}"
    env = shell_environment() | {"HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True, env=env)
    assert done.stderr == ""
    return [offer.partition("\t")[0] for offer in done.stdout.splitlines()]


@pytest.mark.usefixtures("cache")
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_offers_names_behind_a_command_in_any_case_and_no_error_without_contexts() -> None:
    assert fish("rmqadmin topicR") == ["topicRoute"]
    assert fish("rmqadmin TOPICroute -t Ord") == fish("rmqadmin topicRoute -t Ord") == ["OrderTopic"]
    assert fish("rmqadmin dlq show Ord") == ["OrderGroup"]
    assert fish("rmqadmin --context ") == []
    ContextStore().add("live", {"namesrv_addr": "h:1"})
    assert fish("rmqadmin --context ") == ["live"]


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("way", ["eval", "fpath"])
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_after_eval_and_from_fpath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """`eval "$(rmqadmin completion zsh)"` registered nothing."""
    assert_zsh_completes(
        "rmqadmin", (ROOT / "rmqadmin/cli/shells/_rmqadmin").read_text(), way, tmp_path,
        {
            "rmqadmin topicRou": "rmqadmin topicRoute",
            "rmqadmin completion z": "rmqadmin completion zsh",
            "rmqadmin topicRoute --output=cs": "rmqadmin topicRoute --output=csv",
        },
    )  # fmt: skip


def test_without_a_cache_there_are_no_names_and_no_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert complete("rmqadmin", "topicRoute", "-t", "") == []


def test_a_server_cannot_have_the_shell_run_what_it_calls_a_topic(cache: Path) -> None:
    """``compgen -W`` expands the words that it is given."""
    evil = ["$(touch${IFS}pwned)", "`id`", "a b", "x;y", "'", "~", "*", "Fine_%|Topic-1"]
    names_cache.remember(["127.0.0.1:9876"], "topic", evil)
    (path,) = cache.glob("rmqadmin/names/*/topic")
    assert path.read_text() == "Fine_%|Topic-1\n"


def test_a_noun_group_is_completed_in_two_steps(offered: Complete) -> None:
    """Completion offers two-word commands after their first word."""
    assert offered("dl") == ["dlq"]
    assert set(offered("dlq", "")) >= {"ls", "show", "redrive"}
    assert offered("dlq", "redrive", "--exe") == ["--execute"]


def test_commands_leave_the_names_they_saw(rmqadmin: Rmqadmin) -> None:
    rmqadmin("topicList")
    rmqadmin("clusterList")
    found = {path.name: path.read_text().split() for path in names_cache.names_dir().glob("*/*")}
    assert "TBW102" in found["topic"]
    assert found["cluster"] == ["DefaultCluster"]
    assert len(found["broker"]) == 1


def test_a_cache_that_cannot_be_written_is_no_error(rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert rmqadmin("topicList").status == 0


def test_only_so_many_name_servers_are_remembered(cache: Path) -> None:
    for port in range(names_cache.NAMESRVS_MAX + 3):
        names_cache.remember([f"h:{port}"], "topic", ["T"])
    folders = {path.name for path in (cache / "rmqadmin/names").iterdir()}
    assert len(folders) == names_cache.NAMESRVS_MAX
    assert f"h_{names_cache.NAMESRVS_MAX + 2}" in folders
