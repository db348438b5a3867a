"""Hints name what is meant, and not what is merely spelled alike."""

import pytest

from rmqadmin.cli.parsing.command_tree import all_commands
from rmqadmin.cli.parsing.mqadmin_argv import MEANT
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import Server


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("msg cat T --after 1h", "--since"),
        ("msg cat T --count 5", "--limit"),
        ("msg cat T -m 5", "--limit"),
        ("msg cat T --sinse 1h", "--since"),
        ("topicList --format json", "--output"),
        ("topicList --server h:1", "--namesrvAddr"),
        ("deleteTopic -t T --force", "--yes"),
        ("deleteTopic -t T --dryrun", "--dry-run"),
        ("updateTopic -t T --queues 4", "--readQueueNums"),
    ],
)
def test_an_option_of_another_program_is_translated(run: Rmqadmin, line: str, meant: str) -> None:
    ran = run(*line.split())
    assert (ran.status, f"hint: Did you mean {meant}?" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("line", ["msg send T --file x", "topicList --since 1h", "updateTopic -t T --delay 1s"])
def test_an_option_that_nothing_here_means_is_not_guessed(run: Rmqadmin, line: str) -> None:
    """`--since` was taken for `--json`, `--file` for `--sized`, and `--delay` for `--key`."""
    ran = run(*line.split())
    assert (ran.status, "Did you mean" in ran.err) == (2, False), ran.err


def test_each_meaning_is_an_option_of_some_command() -> None:
    known = {name.lstrip("-") for command in all_commands() for option in command.options for name in option.names}
    assert {name for names in MEANT.values() for name in names} <= known


def test_queues_of_a_topic_are_given_by_two_options(run: Rmqadmin) -> None:
    ran = run("updateTopic", "-t", "T", "-c", "C", "-q", "4")
    assert (ran.status, "Queues are given by -r (to read) and -w (to write)." in ran.err) == (2, True)


@pytest.mark.parametrize(("word", "meant"), [("group", "group ls"), ("users", "user ls"), ("contexts", "context ls")])
def test_a_noun_in_the_plural_is_that_noun(run: Rmqadmin, word: str, meant: str) -> None:
    if word.endswith("s"):
        assert f"Did you mean {meant}" in run(word).err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("list-topics", "topic ls"),
        ("topics", "topic ls|"),
        ("show_groups", "group ls"),
        ("create-topic", "topic create"),
        ("consumer-groups", "group ls|"),
        ("brokers", "clusterList"),
        ("cluster-list", "clusterList"),
        ("messages", "msg send|cat|"),
        ("topicLst", "topicList"),
        ("topic remove", "topic delete"),
        ("user delete", "user rm"),
    ],
)
def test_a_command_is_known_by_the_words_of_other_programs(run: Rmqadmin, line: str, meant: str) -> None:
    """`list-topics` was taken for deleteTopic, and `brokers` for addBroker."""
    ran = run(*line.split())
    assert (ran.status, f"Did you mean {meant}" in ran.err) == (2, True), ran.err


def test_a_word_that_means_no_command_is_not_guessed(run: Rmqadmin) -> None:
    ran = run("rebalance")
    assert (ran.status, "Did you mean" in ran.err) == (2, False), ran.err


def test_a_group_without_a_topic_of_its_own_is_near_too(rmqadmin: Rmqadmin, server: Server) -> None:
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="NearlyBilling"))
    ran = rmqadmin("group", "lag", "NearlyBiling")
    assert (ran.status, "Did you mean NearlyBilling?" in ran.err) == (5, True), ran.err


def test_a_column_is_known_by_its_heading(rmqadmin: Rmqadmin) -> None:
    by_field = rmqadmin("clusterList", "-o", "csv", "--columns", "cluster,broker_name")
    by_heading = rmqadmin("clusterList", "-o", "csv", "--columns", "CLUSTER,Broker")
    assert by_field.status == 0, by_field.err
    assert by_heading.out == by_field.out
