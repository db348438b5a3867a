"""Errors: the line, hint, JSON object and exit status of each."""

import json
import re
import socket

import pytest

from rmqadmin.cli import registry
from rmqadmin.cli.output import diagnostics
from rmqadmin.commands.about import Explanations, explained
from rmqadmin.core.error_table import EXPLANATIONS
from rmqadmin.core.exit_codes import EXIT_MEANINGS, ExitCode
from rmqproto import errors
from rmqproto.codes import ResponseCode
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.quick import in_one_test


@in_one_test(
    (errors.UsageError("x"), 2),
    (errors.ConnectError("x", address="h:1"), 3),
    (errors.RefusedError(16, "x"), 4),
    (errors.RefusedError(17, "x"), 5),
    (errors.RefusedError(22, "x"), 5),
    (errors.RefusedError(26, "x"), 5),
    (errors.RefusedError(206, "x"), 5),
    (errors.RefusedError(208, "x"), 5),
    (errors.RefusedError(1, "x"), 1),
    (errors.RefusedError(207, "x"), 1),
    (errors.RefusedError(4711, "x"), 1),
    (errors.NotFoundError("x"), 5),
    (errors.RequestTimeoutError("x"), 6),
    (errors.ProtocolError("x"), 1),
    (errors.StorageError("x"), 1),
    (KeyboardInterrupt(), 130),
    (RuntimeError("x"), 1),
)
def test_each_kind_of_error_has_its_exit_status(error: BaseException, status: int) -> None:
    assert diagnostics.exit_code(error) == status


def test_an_error_is_one_line_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    remark = "No topic route info in name server for the topic: T\nSee https://x.y/z for further details."
    code = diagnostics.report(errors.RefusedError(17, remark, address="h:1"), command="c", as_json=False)
    error, hint = capsys.readouterr().err.splitlines()
    assert code is ExitCode.NOT_FOUND
    assert error == (
        "rmqadmin: error: refused by h:1: No topic route info in name server for the topic: T (17 TOPIC_NOT_EXIST)"
    )
    assert hint.startswith("hint: `rmqadmin topicList`")


def test_every_command_that_a_hint_names_is_there() -> None:
    """Codes 11 and 12 used to send people to `haStatus`, which mqadmin does not have either."""
    texts = [f"{one.meaning} {one.hint}" for one in EXPLANATIONS.values()]
    named = {name for text in texts for name in re.findall(r"`rmqadmin (\S+?)[ `]", text)}
    assert named
    assert not {name for name in named if registry.find(name) is None}


def test_a_question_without_an_answer_has_changed_nothing(run: Rmqadmin) -> None:
    """The hint used to be "Whether it was carried out is unknown", even for `topicList`."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ran = run("topicList", "-n", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "0.1")
    assert ran.status == ExitCode.TIMED_OUT
    assert ran.err.splitlines()[1] == (
        "hint: It has sent nothing at all: is it a RocketMQ server, and with TLS or without?"
        " It was a question: nothing was changed."
    )


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("-n h:1 topicList", "topicList -n"),
        ("--namesrvAddr=h:1 TOPICLIST", "topicList --namesrvAddr"),
        ("-o json -n h:1 dlq ls", "dlq ls -n"),
        ("dlq -n h:1 ls", "dlq ls -n"),
        ("--nope", "COMMAND --nope"),
    ],
)
def test_an_option_before_its_command_is_told_where_it_goes(run: Rmqadmin, args: str, meant: str) -> None:
    ran = run(*args.split())
    assert ran.status == ExitCode.USAGE
    assert "before the command" in ran.err
    assert f"rmqadmin {meant} …" in ran.err


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("topicList -q", "-q topicList"),
        ("dlq ls --color=never", "--color=never dlq ls"),
        ("msg cat T --color never", "--color VALUE msg cat"),
    ],
)
def test_an_option_behind_its_command_that_stands_before_it_is_told_so(run: Rmqadmin, args: str, meant: str) -> None:
    """The hint "Did you mean --follow?" used to answer ``--color`` after ``msg cat``."""
    ran = run(*args.split())
    assert ran.status == ExitCode.USAGE
    assert f"It goes before the command: rmqadmin {meant} …" in ran.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("topicList -o", "Missing argument for option: output\nhint: -o FORMAT: table, wide, json"),
        ("topicRoute -t", "Missing argument for option: topic\nhint: -t TOPIC: Topic name"),
        ("-o", "Missing argument for option: output\nhint: -o FORMAT: table, wide, json"),
        ("--color", "Missing argument for option: color\nhint: --color <auto|always|never>: "),
        ("-o topicList", "--output: 'topicList' is not an output format\nhint: The formats are table"),
    ],
)
def test_an_option_without_its_value_is_told_what_it_takes(run: Rmqadmin, args: str, said: str) -> None:
    """`rmqadmin -o` said that there is no option -o, and `rmqadmin -o topicList` showed the help, with status 0."""
    ran = run(*args.split())
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    assert ran.err.startswith(f"rmqadmin: error: {said}")


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("msg cat -t X", "The value of -t is a word here: rmqadmin msg cat TOPIC"),
        ("msg cat --topic=X", "The value of --topic is a word here: rmqadmin msg cat TOPIC"),
        ("dlq redrive -g G", "The value of -g is a word here: rmqadmin dlq redrive [GROUP]"),
        ("topic create T -r 8 -w 8", "Did you mean --queues?"),
        ("user edit bob -s disable", "Did you mean --status?"),
        ("user add bob -p x", "The password is asked for, or read from standard input with --password-stdin."),
        ("user add -u bob", "The value of -u is a word here: rmqadmin user add USER"),
        ("msg send T --body hi", "The value of --body is a word here: rmqadmin msg send TOPIC [BODY|@FILE|-]..."),
        ("msg import F -t X", "Is it --to TOPIC? Send to this topic. Default: where each came from."),
        ("updateSubGroup --consumerGroup X", "Is it -g GROUP? Consumer group."),
        ("updateTopic -g X", "`rmqadmin updateTopic --help` shows its options and arguments."),
        ("store inspect -t X", "`rmqadmin store inspect --help` shows its options and arguments."),
    ],
)
def test_an_option_of_mqadmin_that_is_a_word_here_is_told_so(run: Rmqadmin, args: str, meant: str) -> None:
    assert f"hint: {meant}\n" in run(*args.split()).err


def test_an_errors_own_hint_comes_before_that_of_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    diagnostics.report(errors.RefusedError(17, "x", hint="Do this."), command="c", as_json=False)
    assert capsys.readouterr().err.splitlines()[1] == "hint: Do this."


@in_one_test(
    ("username cannot be null.", "give -ak and -sk"),
    ("User:nobody is not found.", "Check -ak"),
    ("check signature failed.", "Check -sk"),
    ("User:low has no permission to access Topic:T from 127.0.0.1, no matched policies.", "`rmqadmin acl can`"),
    ("The subject is null.", "User:alice"),
    ("The subject is not exist.", "`rmqadmin listUser`"),
    ("The subject of User:bob is not exist.", "`rmqadmin listUser`"),
    ("The resource is null.", "Topic:order*"),
    ("The actions can not be Any.", "All, Pub, Sub"),
    ("The source ip is invalid.", "10.1.0.0/16"),
    ("the group[G] cannot subscribe", "`rmqadmin topicRoute -l`"),
)
def test_what_a_broker_cannot_read_is_not_told_as_a_missing_permission(remark: str, hinted: str) -> None:
    """Brokers answer 16 to `createAcl -r T`, too, and the hint used to send people to their keys."""
    assert hinted in (diagnostics.hint(errors.RefusedError(16, remark)) or "")


@in_one_test(
    (1, "this request only for controllerMode ", "docs/controller.md"),
    (1, "An system error occurred, please try again later.", "authenticationMetadataProvider"),
    (
        1,
        "java.lang.IllegalStateException: The authorizationMetadataProvider is not configured., a.B.c(B.java:1)",
        "authorizationMetadataProvider",
    ),
    (1, "0@NoSuchTopic is not exist!", "topicStatus"),
    (29, "The topic[TBW102] is conflict with system topic.", "Brokers need this topic"),
    (29, "Topic [T] type not match.", "message.type=LITE"),
    (29, "Group [G] is not a LITE group.", "lite.bind.topic"),
)
def test_a_code_for_many_things_is_hinted_at_by_its_remark(code: int, remark: str, hinted: str) -> None:
    """The hints were "Read the remark" and "Change the value that the message names"."""
    assert hinted in (diagnostics.hint(errors.RefusedError(code, remark)) or "")


def test_a_remark_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    diagnostics.report(errors.RefusedError(1, "a\x1b[2J\nb"), command="c", as_json=False)
    assert "a\\x1b[2J b" in capsys.readouterr().err.splitlines()[0]


def test_in_json_an_error_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    diagnostics.report(errors.RefusedError(16, "no\nmore", address="h:1"), command="topicList", as_json=True)
    assert json.loads(capsys.readouterr().err) == {
        "_command": "topicList",
        "_version": 1,
        "error": {
            "kind": "no_permission",
            "exit_code": 4,
            "message": "refused by h:1: no more (16 NO_PERMISSION)",
            "hint": EXPLANATIONS[16].hint,
            "code": 16,
            "code_name": "NO_PERMISSION",
            "remark": "no\nmore",
            "address": "h:1",
        },
    }


def test_every_response_code_we_have_a_name_for_is_explained() -> None:
    assert set(ResponseCode) - {ResponseCode.SUCCESS} == set(EXPLANATIONS)
    for explanation in EXPLANATIONS.values():
        assert explanation.meaning.endswith(".")
        assert explanation.hint.endswith((".", "?"))


def test_every_exit_status_has_a_meaning() -> None:
    assert set(EXIT_MEANINGS) == set(ExitCode)


def test_explain_finds_a_code_by_number_and_by_name(run: Rmqadmin) -> None:
    by_number, by_name = run("-o", "json", "explain", "17"), run("-o", "json", "explain", "topic_not_exist")
    assert by_number.items == by_name.items
    assert by_number.items[0]["exit_code"] == 5
    assert len(run("-o", "json", "explain").items) == len(EXPLANATIONS)


@pytest.mark.parametrize("width", [40, 80, 300])
def test_explain_shows_a_person_whole_sentences_of_one_code(width: int) -> None:
    """At 80 columns a table used to cut off both the meaning of a code and the advice."""
    for code, known in EXPLANATIONS.items():
        text = "".join(Explanations([explained(code)]).cards(width, None) or ())
        assert max(map(len, text.splitlines())) <= width
        assert f"{known.meaning} hint: {known.hint}" in " ".join(text.split())


def test_explain_does_not_know_what_nobody_knows(run: Rmqadmin) -> None:
    run("explain", "4711", status=5, out="", err="4711")
