"""The program on a real terminal: questions, widths, Ctrl-C."""

from __future__ import annotations

import os
import re
import shutil
import signal
import termios
from pathlib import Path

import pexpect
import pytest

from rmqclient.admin import AdminClient
from rmqproto.names import retry_topic
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, Terminal, lines_left, status
from tests.support.quick import first_is_quick
from tests.support.servers import Fresh, Server, topic_config


def exists(rmqadmin: Rmqadmin, topic: str) -> bool:
    return rmqadmin("topicRoute", "-t", topic).status == 0


def test_deleting_asks_for_the_name_and_takes_nothing_else_for_a_yes(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str
) -> None:
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact(f"Type {topic} to go on: ")
    child.sendline("y")
    child.expect_exact("nothing was changed")
    assert status(child) == 1
    assert exists(rmqadmin, topic)
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact(f"Type {topic} to go on: ")
    child.sendline(topic)
    assert status(child) == 0
    assert not exists(rmqadmin, topic)


def test_the_end_of_input_is_no_yes(terminal: Terminal, rmqadmin: Rmqadmin, topic: str) -> None:
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact("to go on: ")
    child.sendeof()
    assert status(child) == 1
    assert exists(rmqadmin, topic)


def test_a_reset_shows_each_queue_before_it_asks(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str, fresh: Fresh
) -> None:
    group = fresh("TerminalGroup")
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group)
    rmqadmin("sendMessage", "-t", topic, "-p", "x")
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    child = terminal("resetOffset", "-g", group, "-t", topic, "--to", "end")
    child.expect(r"SKIPPED +OLDEST SKIPPED +DONE")
    child.expect(r"broker-a +0 +0 +1 +1 +0 +1 +[\w ]+ no")
    child.expect_exact(f"This moves the group {group} in {topic} to the end of every queue.")
    child.expect_exact(f"Type {group} to go on: ")
    child.sendline(group)
    child.expect(r"broker-a +0 +0 +1 +1 +0 +1 +[\w ]+ yes")
    assert status(child) == 0


def test_ctrl_c_at_a_question_changes_nothing(terminal: Terminal, rmqadmin: Rmqadmin, topic: str) -> None:
    child = terminal("deleteTopic", "-c", CLUSTER, "-t", topic)
    child.expect_exact("to go on: ")
    child.sendintr()
    assert status(child) == 130
    assert "Traceback" not in (child.before or "")
    assert exists(rmqadmin, topic)


def test_a_watch_redraws_in_place_until_ctrl_c(terminal: Terminal) -> None:
    child = terminal("clusterList", "--watch", "0.1")
    for _ in range(2):
        child.expect_exact("\x1b[H\x1b[2J")
        child.expect_exact("clusterList, every 0.1 s")
    child.sendintr()
    assert status(child) == 130
    assert "Traceback" not in (child.before or "")


def test_a_watch_reverses_what_has_changed_since_the_last_tick_also_without_colours(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str
) -> None:
    child = terminal("topicStatus", "-t", topic, "--watch", "0.1")
    for _ in range(3):
        child.expect_exact("\x1b[H\x1b[2J")
        assert "\x1b[7m" not in (child.before or "")
    assert rmqadmin("msg", "send", topic, "x").status == 0
    child.expect_exact("\x1b[7m1\x1b[0m")
    child.sendintr()
    assert status(child) == 130


def test_a_dumb_terminal_gets_nothing_that_draws_in_place(terminal: Terminal) -> None:
    child = terminal("doctor", "--quick", env={"TERM": "dumb"})
    status(child)
    assert "checks passed" in (child.before or "")
    assert "\x1b" not in (child.before or "")
    child = terminal("clusterList", "--watch", "0.1", env={"TERM": "dumb"})
    for _ in range(2):
        child.expect_exact("clusterList, every 0.1 s")
        assert "\x1b" not in (child.before or "")
    child.sendintr()
    assert status(child) == 130


def lines_of(child: pexpect.spawn[str]) -> list[str]:
    assert status(child) == 0
    return lines_left(child.before)


@pytest.mark.parametrize("columns", [30, 80, 300])
@pytest.mark.parametrize(
    "command",
    first_is_quick(
        [
            "clusterList",
            "queryMsgByKey -t {topic} -k KEY",
            "consumeMessage -t {topic}",
            "printMsg -t {topic}",
            "topicStatus -t {topic}",
        ]
    ),
)
def test_a_row_is_one_line_at_every_width(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str, command: str, columns: int
) -> None:
    """At 80 columns a broker used to take 8 lines, and a message's id was split over 4."""
    rmqadmin("sendMessage", "-t", topic, "-p", "word " * 100, "-k", "KEY")
    lines = lines_of(terminal(*command.format(topic=topic).split(), columns=columns))
    assert max(map(len, lines)) <= columns
    head, row, *rest = lines
    assert head.isupper()
    assert head.split()[0] != row.split()[0]
    assert all(line.startswith(("(", "Messages: ", "In/s: ")) for line in rest if line)
    assert "\x1b" not in "".join(lines)  # NO_COLOR


def test_an_id_that_is_shortened_is_whole_in_wide_and_name_and_in_a_pipe(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str
) -> None:
    rmqadmin("sendMessage", "-t", topic, "-p", "x" * 100, "-k", "KEY")
    query = ("queryMsgByKey", "-t", topic, "-k", "KEY")
    message_id = rmqadmin("-o", "json", *query).items[0]["message_id"]
    shortened = lines_of(terminal(*query, columns=80))[1].split()[0]
    beginning, end = shortened.split("…")
    assert message_id.startswith(beginning)
    assert message_id.endswith(end)
    for options in (("--output", "wide"), ("--output", "name")):
        assert message_id in "".join(lines_of(terminal(*query, *options, columns=80)))
    assert message_id in rmqadmin(*query).out


def test_a_terminal_has_colours_where_something_wants_a_look(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str, fresh: Fresh
) -> None:
    group = fresh("TerminalGroup")
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group)
    rmqadmin("sendMessage", "-t", topic, "-p", "x")
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    progress = ("consumerProgress", "-g", group)
    out = "".join(lines_of(terminal("--color", "always", *progress)))
    assert "\x1b[33m1\x1b[0m" in out
    assert "\x1b" not in rmqadmin(*progress).out


def test_what_is_longer_than_the_terminal_goes_through_the_pager(
    terminal: Terminal, rmqadmin: Rmqadmin, server: Server, tmp_path: Path
) -> None:
    """Nothing else does: there is no pager for output that fits, with --no-pager, or in a pipe."""
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGER; exec cat\n")
    pager.chmod(0o755)
    config = ("getBrokerConfig", "-b", server.broker_addr)
    env = {"RMQADMIN_PAGER": str(pager)}
    paged = lines_of(terminal(*config, env=env))
    assert paged.count("PAGER") == 1
    whole = lines_of(terminal("--no-pager", *config, env=env))
    assert paged[-len(whole) :] == whole  # the pager gets the first line too
    assert "PAGER" not in lines_of(terminal("clusterList", env=env))
    assert "PAGER" not in rmqadmin(*config).out


def test_a_reader_who_leaves_the_pager_early_is_no_error(terminal: Terminal, server: Server, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nread line; echo $line\n")
    pager.chmod(0o755)
    child = terminal("getBrokerConfig", "-b", server.broker_addr, env={"RMQADMIN_PAGER": str(pager)})
    assert "error" not in "".join(lines_of(child))


@pytest.mark.parametrize(
    ("pager", "told"),
    first_is_quick([
        ("no-such-pager -x", "RMQADMIN_PAGER: there is no program no-such-pager: shown without a pager"),
        ("less 'x", "RMQADMIN_PAGER: less 'x: no closing quotation: shown without a pager"),
        ("less \\", "RMQADMIN_PAGER: less \\: no escaped character: shown without a pager"),
        ("''", "RMQADMIN_PAGER names no program: shown without a pager"),
        ("{folder}/no-format", "no-format: Exec format error: shown without a pager"),
        ("{folder}/no-interpreter", "no-interpreter: No such file or directory: shown without a pager"),
    ], 2),
)  # fmt: skip
def test_a_pager_that_cannot_be_started_is_told_below_the_output(
    terminal: Terminal, server: Server, tmp_path: Path, pager: str, told: str
) -> None:
    """The output used to end in the middle, as for a defect."""
    for name, text in (("no-format", "\0\0"), ("no-interpreter", "#!/no/such/program\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    config = ("getBrokerConfig", "-b", server.broker_addr)
    whole = lines_of(terminal("--no-pager", *config))
    *shown, last = lines_of(terminal(*config, columns=140, env={"RMQADMIN_PAGER": pager.format(folder=tmp_path)}))
    assert len(shown) == len(whole)
    assert last.endswith(told)


@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("pager", signal.SIGTERM), ("stubborn", signal.SIGTERM), ("editor", signal.SIGHUP), ("less", signal.SIGHUP),
    ],
)  # fmt: skip
def test_a_signal_ends_the_program_that_has_the_terminal_too(
    terminal: Terminal, server: Server, tmp_path: Path, program: str, number: signal.Signals
) -> None:
    """The pager went on alone, and read the keys that were for the shell."""
    if program == "less" and shutil.which("less") is None:
        pytest.skip("there is no less")
    script, noted = tmp_path / program, tmp_path / "pid"
    ignores = "trap '' TERM HUP;" if program == "stubborn" else ""
    runs = "exec less" if program == "less" else "echo HERE; while read line </dev/tty; do :; done"
    script.write_text(f"#!/bin/sh\n{ignores} echo $$ >{noted}; stty -echo raw </dev/tty\n{runs}\n")
    script.chmod(0o755)
    words = ("context", "edit", "live") if program == "editor" else ("getBrokerConfig", "-b", server.broker_addr)
    if program == "editor":
        child = terminal("context", "add", "live", "-n", "127.0.0.1:1")
        child.expect(pexpect.EOF)
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, programs inherit that SIGHUP is ignored
    try:
        child = terminal(*words, env={"RMQADMIN_PAGER": str(script), "EDITOR": str(script), "TERM": "xterm"})
    finally:
        signal.signal(number, before)
    child.expect("brokerName|:|HERE" if program == "less" else "HERE")
    settings = termios.tcgetattr(child.child_fd)
    assert not settings[3] & termios.ECHO
    os.kill(child.pid, number)
    child.expect(f"rmqadmin: ended by {number.name}")
    assert status(child) == 128 + number
    assert termios.tcgetattr(child.child_fd)[3] & termios.ECHO
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


def test_a_pager_that_fails_is_told(terminal: Terminal, server: Server) -> None:
    config = ("getBrokerConfig", "-b", server.broker_addr)
    *_, last = lines_of(terminal(*config, env={"RMQADMIN_PAGER": "sh -c 'exit 3'"}))
    assert last == "rmqadmin: the pager sh ended with status 3: --no-pager shows all of it"


def test_messages_are_followed_from_the_first_line_on_until_ctrl_c(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str
) -> None:
    assert rmqadmin("sendMessage", "-t", topic, "-p", "was there " + "x" * 200).status == 0
    child = terminal("printMsg", "-t", topic, "--follow", columns=80)
    child.expect_exact("was there x")
    assert len(lines_left(child.before)[-1]) < 80
    assert rmqadmin("sendMessage", "-t", topic, "-p", "came later").status == 0
    child.expect_exact("came later")
    child.sendintr()
    assert status(child) == 130
    assert "Traceback" not in (child.before or "")


def test_msg_cat_ends_at_ctrl_c_with_its_summary_and_nothing_drives_the_terminal(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str
) -> None:
    rmqadmin("msg", "send", topic, "was\x1b[2J there " + "x" * 200)
    child = terminal("msg", "cat", topic, "--follow", columns=80)
    child.expect_exact("was\\x1b[2J there x")
    assert len(lines_left(child.before)[-1]) < 80
    child.sendintr()
    child.expect_exact("scanned 1, matched 1, stopped because it was interrupted")
    assert status(child) == 130
    lines = lines_of(terminal("msg", "cat", topic, "-f", r"%s|%S\n"))
    assert lines == [
        "was\\x1b[2J there " + "x" * 200 + "|214",
        "rmqadmin: scanned 1, matched 1, stopped because the end was reached",
    ]


def test_words_that_belong_to_no_option_are_named_on_a_terminal(terminal: Terminal) -> None:
    assert any("belongs to no option: OrderTopic" in line for line in lines_of(terminal("topicList", "OrderTopic")))


@pytest.mark.parametrize("command", first_is_quick(["topicList", "topicList -c", "statsAll", "consumerProgress"]))
def test_names_of_the_system_are_shown_on_a_terminal_only_if_asked_for(
    terminal: Terminal, rmqadmin: Rmqadmin, topic: str, fresh: Fresh, command: str
) -> None:
    """A user's two topics used to drown in a dozen system topics."""
    group, own_group = "CID_RMQ_SYS_TERMINAL", fresh("TerminalGroup")
    for name in (group, own_group):
        rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name)
        with AdminClient(os.environ["NAMESRV_ADDR"]) as admin:
            retry = topic_config(retry_topic(name))
            admin.create_topic(admin.cluster_info().broker_addr_table["broker-a"].broker_addrs[0], retry)
    own, systems = (own_group, group) if command == "consumerProgress" else (topic, "TBW102")
    shown = "\n".join(lines_of(terminal(*command.split(), columns=300)))
    assert own in shown
    assert systems not in shown
    assert "are hidden; --all shows them" in shown
    assert systems in "\n".join(lines_of(terminal("--no-pager", *command.split(), "--all", columns=300)))
    assert systems in rmqadmin(*command.split()).out  # a pipe gets everything, as scripts expect


def test_groups_of_the_system_are_left_out_of_a_brokers_stats_on_a_terminal(
    terminal: Terminal, rmqadmin: Rmqadmin, server: Server, topic: str, fresh: Fresh
) -> None:
    own, systems = fresh("TerminalGroup"), "CID_RMQ_SYS_STATS"
    rmqadmin("sendMessage", "-t", topic, "-p", "x")
    for group in (own, systems):
        rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group)
        rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    command = ("brokerConsumeStats", "-b", server.broker_addr)
    shown = "\n".join(lines_of(terminal(*command, columns=300)))
    assert own in shown
    assert systems not in shown
    assert "are hidden; --all shows them" in shown
    assert systems in "\n".join(lines_of(terminal(*command, "--all", columns=300)))
    assert systems in rmqadmin(*command).out


def test_moments_of_a_brokers_status_are_times(terminal: Terminal, rmqadmin: Rmqadmin, server: Server) -> None:
    """They used to be numbers with separated thousands."""
    command = ("brokerStatus", "-b", server.broker_addr)
    (boot,) = (line for line in lines_of(terminal(*command)) if line.startswith("bootTimestamp"))
    assert boot.endswith(("ago", "now"))
    (wide,) = (line for line in rmqadmin(*command, "--output", "wide").out.splitlines() if "bootTimestamp" in line)
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", wide)
    (row,) = (row for row in rmqadmin("-o", "json", *command).items if row["name"] == "bootTimestamp")
    assert row["value"] > 1_600_000_000_000


def test_topics_with_their_groups_are_sorted(rmqadmin: Rmqadmin, topic: str) -> None:
    names = [row["topic"] for row in rmqadmin("-o", "json", "topicList", "-c").items]
    assert topic in names
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("msg", "import", "-", "--dry-run"), "type lines of JSON; Ctrl-D"),
        (("diff", "-f", "-"), "type the wanted state; Ctrl-D"),
        (("apply", "-f", "-", "--dry-run"), "type the wanted state; Ctrl-D"),
        (("sendMessage", "-t", "SelfTestTopic", "-p", "-", "--dry-run"), "type a message; Ctrl-D"),
    ],
)
def test_every_command_that_reads_standard_input_tells_a_person(
    terminal: Terminal, words: tuple[str, ...], told: str
) -> None:
    """All but `msg send` and `sendMessage` seemed to hang."""
    child = terminal(*words)
    child.expect(told)
    child.sendeof()
    child.expect(pexpect.EOF)
    assert "type " not in str(child.before)


def test_a_password_from_a_terminal_is_asked_for_and_not_shown(terminal: Terminal) -> None:
    child = terminal("updateUser", "-c", CLUSTER, "-u", "nobody", "--password-stdin", "--dry-run")
    child.expect("Password: ")
    child.sendline("not-to-be-seen")
    child.expect(pexpect.EOF)
    assert "not-to-be-seen" not in str(child.before)


def test_no_other_code_reads_standard_input() -> None:
    """What is added here must tell a person that it waits."""
    reads = re.compile(r"sys\.stdin\.(buffer|read)|open\(0")
    assert {
        path.name for path in (Path(__file__).parents[2] / "rmqadmin").rglob("*.py") if reads.search(path.read_text())
    } == {
        "bodies_in.py", "manifest.py", "msg_import.py", "users.py",
        "diagnostics.py",  # the answer to a question
        "worker.py",  # of a load, from its parent
    }  # fmt: skip
