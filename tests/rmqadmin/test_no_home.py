"""A user without a home: neither HOME nor an entry in passwd, as in many containers. Commands work, and what must be
written there fails in one line that says what to set."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.quick import first_is_quick
from tests.support.servers import Fresh, Server

UNKNOWN_USER = """
import pwd, sys

def nobody(uid):
    raise KeyError(uid)

pwd.getpwuid = nobody
sys.argv[0] = "rmqadmin"
from rmqadmin.__main__ import main
main()
"""

Homeless = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def homeless(server: Server, tmp_path: Path) -> Homeless:
    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"], "NAMESRV_ADDR": server.namesrv_addr, "PYTHONPATH": os.getcwd(), **variables,
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, "-c", UNKNOWN_USER, *words], env=environment, cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def consumed(rmqadmin: Rmqadmin, fresh: Fresh) -> tuple[str, str]:
    """A topic with one message, and a group that has not consumed it."""
    topic, group = fresh("HomelessTopic"), fresh("HomelessGroup")
    for words in (
        ("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "1", "-w", "1"),
        ("updateSubGroup", "-c", CLUSTER, "-g", group),
        ("sendMessage", "-t", topic, "-p", "x"),
        ("resetOffset", "-g", group, "-t", topic, "--to", "begin"),
    ):
        assert rmqadmin(*words).status == 0
    return topic, group


@pytest.mark.parametrize(
    "words",
    first_is_quick([
        "topicList", "shell -c clusterList", "resetOffset -g {group} -t {topic} --to end --dry-run", "context ls",
        "clusterList", "config show", "audit", "dlq ls", "check disk", "msg cat {topic}",
        "consumerProgress -g {group}", "snapshot ls --help",
    ], 2),
)  # fmt: skip
def test_what_reads_works(homeless: Homeless, consumed: tuple[str, str], words: str, tmp_path: Path) -> None:
    topic, group = consumed
    done = homeless(*words.format(topic=topic, group=group).split())
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr
    assert not list(tmp_path.glob("~*")), "no directory of that name is made"


def test_a_change_works_and_says_once_that_the_log_of_changes_is_missing(homeless: Homeless, fresh: Fresh) -> None:
    done = homeless("updateTopic", "-c", CLUSTER, "-t", fresh("HomelessTopic"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no home directory is known: set HOME, or XDG_CONFIG_HOME and XDG_STATE_HOME") == 1


@pytest.mark.parametrize(
    "words",
    first_is_quick([
        "resetOffset -g {group} -t {topic} --to end --yes", "dlq redrive {group} --execute --to group",
        "context use none-such", "context add dev --namesrv 127.0.0.1:9876",
    ], 2),
)  # fmt: skip
def test_what_must_keep_a_file_says_what_to_set_and_changes_nothing(
    homeless: Homeless, consumed: tuple[str, str], words: str, tmp_path: Path
) -> None:
    topic, group = consumed
    done = homeless(*words.format(topic=topic, group=group).split())
    assert done.returncode in (1, 2, 5)
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr
    if "use" not in words:
        assert "no home directory is known" in done.stderr
    assert "XDG_STATE_HOME" in done.stderr or "use" in words
    with_state = homeless("resetOffset", "-g", group, "-t", topic, "--to", "end", XDG_STATE_HOME=str(tmp_path))
    assert with_state.returncode == 0, with_state.stderr
    assert list((tmp_path / "rmqadmin" / "undo").iterdir())


@pytest.mark.parametrize("words", ["context ls", "audit", "updateTopic -c {cluster} -t {topic}"])
def test_a_home_that_is_no_directory_is_none(homeless: Homeless, fresh: Fresh, words: str) -> None:
    """Accounts of services often have ``/dev/null`` there."""
    done = homeless(*words.format(cluster=CLUSTER, topic=fresh("HomelessTopic")).split(), HOME="/dev/null")
    assert done.returncode == 0, done.stderr
    assert ("no home directory is known" in done.stderr) == words.startswith("updateTopic")
