"""Topics on a running server, from creation to deletion."""

import shlex
import tempfile
from pathlib import Path

import pytest

from rmqadmin.cli.output import diagnostics
from rmqadmin.core.servers.namesrv_tables import read_value
from rmqadmin.core.topic_and_group_configs import changed_attributes, parse_attributes
from rmqclient.admin import AdminClient
from rmqproto.errors import UsageError
from rmqproto.names import ORDER_TOPIC_NAMESPACE
from tests.rmqadmin.conftest import CLUSTER, Ran, Rmqadmin
from tests.support.quick import in_one_test
from tests.support.servers import Fresh, Server, create_topic


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> str:
    """A topic of three queues on the shared server."""
    return create_topic(server, fresh("AdminTopic"), 3)


def changes(ran: Ran) -> dict[str, tuple[object, object]]:
    return {change["field"]: (change["before"], change["after"]) for change in ran.items[0]["changes"]}


def test_a_topic_is_created_listed_routed_changed_and_deleted(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> None:
    name = fresh("AdminTopic")
    created = rmqadmin("-o", "json", "updateTopic", "-b", server.broker_addr, "-t", name, "-r", "2", "-w", "3")
    assert (created.items[0]["target"], created.items[0]["action"]) == (server.broker_addr, "create")
    assert changes(created)["write_queue_nums"] == (None, 3)
    assert {"topic": name} in rmqadmin("-o", "json", "topicList").items
    (route,) = rmqadmin("-o", "json", "topicRoute", "-t", name).items
    assert route == {
        "cluster": CLUSTER, "broker_name": "broker-a", "broker_addrs": {"0": server.broker_addr},
        "read_queue_nums": 2, "write_queue_nums": 3, "perm": 6, "topic": None,
    }  # fmt: skip
    assert rmqadmin("topicStatus", "-t", name, "--output", "name").out == "broker-a/0\nbroker-a/1\nbroker-a/2\n"
    deleted = rmqadmin("-o", "json", "deleteTopic", "-c", CLUSTER, "-t", name)
    assert [(row["target"], row["action"], row["done"]) for row in deleted.items] == [
        (server.broker_addr, "delete", True),
        (server.namesrv_addr, "delete", True),
    ]
    assert {"topic": name} not in rmqadmin("-o", "json", "topicList").items


def test_several_topics_are_shown_where_a_list_is_given(rmqadmin: Rmqadmin, topic: str, fresh: Fresh) -> None:
    """`-t a,b` was taken for the name of one topic, which nobody knew."""
    other = fresh("AdminTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", other, "-r", "1", "-w", "1").status == 0
    both = f"{topic}, {other}"
    routes = rmqadmin("-o", "json", "topicRoute", "-t", both).items
    assert [(row["topic"], row["read_queue_nums"]) for row in routes] == [(topic, 3), (other, 1)]
    queues = rmqadmin("-o", "json", "topicStatus", "-t", both).items
    assert [(row["topic"], row["queue_id"]) for row in queues] == [(topic, 0), (topic, 1), (topic, 2), (other, 0)]
    assert rmqadmin("topicStatus", "-t", both, "--output", "name").out.endswith(f"broker-a/0/{other}\n")
    assert rmqadmin("topicStatus", "-t", f"{topic},{other}-none").status == 5


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("deleteTopic -t a,b --yes", "rmqadmin topic delete a b\n"),
        ("updateTopic -t a,b", "rmqadmin topic create a b\n"),
        ("topicClusterList -t a,b", "rmqadmin topic describe a b\n"),
        ("updateTopicPerm -t a,b -p R", "once for each"),
        ("deleteSubGroup -g a,b", "once for each"),
        ("consumerProgress -g a,b", "rmqadmin group describe a b\n"),
        ("msg cat a,b", "once for each"),
    ],
)
def test_a_list_where_one_name_is_taken_is_refused(rmqadmin: Rmqadmin, words: str, hint: str) -> None:
    ran = rmqadmin(*words.split(), status=2, err="'a,b' is a list")
    assert hint in ran.err


def test_what_is_not_given_stays_as_it_is(rmqadmin: Rmqadmin, topic: str) -> None:
    """mqadmin sets the queue counts back to 8 even if only the permission was to change."""
    changed = rmqadmin("-o", "json", "updateTopic", "-c", CLUSTER, "-t", topic, "-p", "4")
    assert changed.items[0]["action"] == "change"
    assert changes(changed) == {"perm": (6, 4)}
    (route,) = rmqadmin("-o", "json", "topicRoute", "-t", topic).items
    assert (route["perm"], route["read_queue_nums"]) == (4, 3)


def test_replace_is_mqadmins_way(rmqadmin: Rmqadmin, topic: str) -> None:
    changed = rmqadmin("-o", "json", "updateTopic", "-c", CLUSTER, "-t", topic, "-p", "4", "--replace")
    assert changes(changed) == {"perm": (6, 4), "read_queue_nums": (3, 8), "write_queue_nums": (3, 8)}


def test_a_dry_run_shows_the_change_and_changes_nothing(rmqadmin: Rmqadmin, topic: str) -> None:
    shown = rmqadmin("-o", "json", "updateTopic", "-c", CLUSTER, "-t", topic, "-p", "4", "--dry-run")
    assert (shown.status, shown.items[0]["done"]) == (0, False)
    assert changes(shown) == {"perm": (6, 4)}
    shown = rmqadmin("-o", "json", "deleteTopic", "-c", CLUSTER, "-t", topic, "--dry-run")
    assert (shown.status, {row["done"] for row in shown.items}) == (0, {False})
    assert rmqadmin("-o", "json", "topicRoute", "-t", topic).items[0]["perm"] == 6


def test_attributes_are_changes(rmqadmin: Rmqadmin, topic: str) -> None:
    def update(text: str) -> Ran:
        return rmqadmin("-o", "json", "updateTopic", "-c", CLUSTER, "-t", topic, "-a", text)

    assert changes(update("+message.type=DELAY")) == {"message.type": (None, "DELAY")}
    assert changes(update("+message.type=FIFO")) == {"message.type": ("DELAY", "FIFO")}
    assert changes(update("-message.type")) == {"message.type": ("FIFO", None)}


def test_an_ordered_topic_is_told_to_the_name_server(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> None:
    of_broker, of_cluster = fresh("Ordered"), fresh("Ordered")
    told = rmqadmin("updateTopic", "-b", server.broker_addr, "-t", of_broker, "-o", "true", "--output", "mqadmin")
    assert told.out.startswith("set broker orderConf. isOrder=true, orderConf=[broker-a:8]\ncreate topic to ")
    told = rmqadmin("updateTopic", "-c", CLUSTER, "-t", of_cluster, "-w", "2", "-o", "true", "--output", "mqadmin")
    assert told.out.splitlines()[1] == "set cluster orderConf. isOrder=true, orderConf=[broker-a:2]"
    with AdminClient(server.namesrv_addr) as admin:
        assert admin.kv_value(ORDER_TOPIC_NAMESPACE, of_broker) == "broker-a:8"
        assert admin.kv_value(ORDER_TOPIC_NAMESPACE, of_cluster) == "broker-a:2"


def test_who_deletes_a_topic_is_told_what_goes_with_it(rmqadmin: Rmqadmin, topic: str, fresh: Fresh) -> None:
    rmqadmin("sendMessage", "-t", topic, "-p", "x")
    planned = ("deleteTopic", "-c", CLUSTER, "-t", topic, "--dry-run")
    assert "1 message would be lost; no group is online or has offsets there" in rmqadmin(*planned).err
    group = fresh("Reader")
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group)
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    assert f"1 message would be lost; read by {group}" in rmqadmin(*planned).err


def test_what_name_servers_tell_of_an_ordered_topic_is_planned_and_changed_only_if_it_has_to_be(
    rmqadmin: Rmqadmin, server: Server, admin: AdminClient, fresh: Fresh
) -> None:
    """A dry run used to omit the order configuration, and any change of the topic rewrote it."""
    topic = fresh("Ordered")
    there = ("updateTopic", "-c", CLUSTER, "-t", topic, "-o", "true", "-w", "4")
    planned = rmqadmin(*there, "--dry-run", "--output", "json").items
    assert [(row["target"], row["action"]) for row in planned] == [
        (server.broker_addr, "create"), (server.namesrv_addr, "create"),
    ]  # fmt: skip
    assert planned[1]["changes"] == [{"field": topic, "before": None, "after": "broker-a:4"}]
    assert read_value(admin, ORDER_TOPIC_NAMESPACE, topic) is None
    assert [row["done"] for row in rmqadmin(*there, "--output", "json").items] == [True, True]

    by_hand = "broker-a:3;broker-gone:2"
    admin.put_kv(server.namesrv_addr, ORDER_TOPIC_NAMESPACE, topic, by_hand)
    assert len(rmqadmin("-o", "json", "updateTopic", "-c", CLUSTER, "-t", topic, "-p", "R").items) == 1
    assert admin.kv_value(ORDER_TOPIC_NAMESPACE, topic) == by_hand
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-w", "2")
    assert admin.kv_value(ORDER_TOPIC_NAMESPACE, topic) == "broker-a:2"


def test_mqadmins_text_for_a_new_topic(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> None:
    name = fresh("AdminTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", name, "--output", "mqadmin").out == (
        f"create topic to {server.broker_addr} success.\n"
        f"TopicConfig [topicName={name}, readQueueNums=8, writeQueueNums=8, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={}]\n"
    )
    assert rmqadmin("deleteTopic", "-c", CLUSTER, "-t", name, "--output", "mqadmin").out == (
        f"delete topic [{name}] from cluster [{CLUSTER}] success.\ndelete topic [{name}] from NameServer success.\n"
    )


def test_deleting_what_is_not_there_is_an_error_unless_said_otherwise(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    name = fresh("NoSuchTopic")
    assert rmqadmin("deleteTopic", "-c", CLUSTER, "-t", name).status == 5
    assert rmqadmin("deleteTopic", "-c", CLUSTER, "-t", name, "--if-exists").status == 0
    assert rmqadmin("deleteTopic", "-c", CLUSTER, "-t", name, "--output", "mqadmin").status == 0


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["topicRoute", "-t", "NoSuchTopic"], 5, "17 TOPIC_NOT_EXIST"),
        (["topicStatus", "-t", "NoSuchTopic"], 5, "17 TOPIC_NOT_EXIST"),
        (["updateTopic", "-c", "NoCluster", "-t", "T"], 5, "there is no cluster NoCluster"),
        (["updateTopic", "-b", "h:1", "-c", "C", "-t", "T"], 2, "already been selected: 'b'"),
        (["updateTopic", "-b", "nonsense", "-t", "T"], 5, "there is no broker nonsense"),
        (["updateTopic", "-c", CLUSTER, "-t", "T", "-p", "RQ"], 2, "topicPermission value: RQ is invalid."),
        (["updateTopic", "-c", CLUSTER, "-t", "T", "-p", "9"], 2, "topicPermission value: 9 is invalid."),
        (["updateTopic", "-c", CLUSTER, "-t", "Bad.Name"], 1, "29 INVALID_PARAMETER"),
        (["updateTopic", "-c", CLUSTER, "-t", "T", "-r", "x"], 2, "'x' is not a whole number"),
        (["updateTopic", "-c", CLUSTER, "-t", "T", "-r", "5_000"], 2, "'5_000' is not a whole number"),
        (["updateTopic", "-c", CLUSTER, "-t", "T", "-r", "\u0665"], 2, "is not a whole number"),
        (["clusterList", "--timeout", "1_0"], 2, "'1_0' is not a finite number"),
        (["updateTopic", "-c", CLUSTER, "-t", "T", "-o", "maybe"], 2, "'maybe' is not one of"),
        (
            ["updateTopic", "-c", CLUSTER, "-t", "T", "-a", "message.type=FIFO"],
            2,
            "add/alter attribute format is wrong",
        ),
        (["topicList", "-n", "127.0.0.1:1"], 3, "cannot connect to 127.0.0.1:1"),
        (["topicList", "-n", "non sense"], 2, "'non sense' is not an address"),
        (["topicList", "-n", "127.0.0.1\uff1a9876"], 2, "'127.0.0.1\uff1a9876' is not an address"),  # a wide colon
        (["topicList", "-n", "rocketmq://127.0.0.1:9876"], 2, "'rocketmq://127.0.0.1:9876' is not an address\nhint"),
        (["topicList", "-ak", "only-one-key"], 2, "-ak gives the access_key, and the secret_key is missing"),
    ],
)
def test_a_failure_ends_with_its_status_and_an_empty_standard_output(
    rmqadmin: Rmqadmin, args: list[str], status: int, said: str
) -> None:
    ran = rmqadmin(*args, status=status, out="", err=said)
    assert ran.err.startswith(f"{diagnostics.PROGRAM}: error: ")


def test_with_two_brokers_one_of_which_is_away_the_other_is_changed_and_the_status_says_so(
    rmqadmin: Rmqadmin, server: Server, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmqadmin.core import targets

    monkeypatch.setattr(targets, "masters", lambda *_: [server.broker_addr, "127.0.0.1:1"])
    monkeypatch.setattr("rmqadmin.core.topics.topic_changes.read_topic", lambda *_: None)
    ran = rmqadmin("-o", "json", "updateTopic", "-c", CLUSTER, "-t", fresh("HalfTopic"), status=1)
    assert [row["done"] for row in ran.items] == [True, False]
    assert "cannot connect to 127.0.0.1:1" in ran.items[1]["error"]
    assert "1 of 2 failed" in ran.err


@in_one_test("a=b", "+=b", "+a", "-", "+a=", "-a,-a", "a")
def test_an_attribute_without_its_sign_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_attributes(text)


def test_attributes_are_read_and_applied() -> None:
    signed = parse_attributes(" +a=1,-b,+c=x ")
    assert signed == {"+a": "1", "-b": "", "+c": "x"}
    assert changed_attributes({"b": "2", "d": "4"}, signed) == {"a": "1", "c": "x", "d": "4"}


def test_perms_are_taken_and_shown_as_letters_and_as_numbers(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    """A permission used to be 6 in one place and RW. in another."""
    topic = fresh("PermTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-p", "RWX").status == 0
    for written, bits, shown in (("wr", 6, "RW (6)"), ("R", 4, "R (4)"), ("2", 2, "W (2)"), ("rwx", 7, "RWX (7)")):
        changed = rmqadmin("updateTopicPerm", "-c", CLUSTER, "-t", topic, "-p", written, status=0)
        assert f"-> {shown}" in changed.out
        assert shown in rmqadmin("topicRoute", "-t", topic).out
        assert rmqadmin("-o", "json", "topicRoute", "-t", topic).items[0]["perm"] == bits
    for written in ("RR", "xxx", "8", "", "read"):  # three X used to be one
        assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-p", written).status == 2


def test_a_unit_of_a_queue_matches_only_if_a_group_is_named(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    """Without a group, every unit used to match nothing, because brokers say so."""
    topic, group = fresh("UnitTopic"), fresh("UnitGroup")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "1", "-w", "1").status == 0
    assert rmqadmin("sendMessage", "-t", topic, "-p", "x").status == 0
    asked = ("queryCq", "-t", topic, "-q", "0", "-i", "0")
    assert rmqadmin(*asked, "-o", "json").items[0]["matches"] is None
    assert "MATCHES" not in rmqadmin(*asked).out
    assert isinstance(rmqadmin(*asked, "-g", group, "-o", "json").items[0]["matches"], bool)


def test_blanks_around_a_value_are_not_part_of_it(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    """As in mqadmin. ``true`` with a blank used to be refused."""
    topic = fresh("BlankTopic")
    words = (
        "-c", f" {CLUSTER} ", "-t", f" {topic} ", "-r", " 3 ", "-p", " R ", "-o", " true ", "-a",
        " +message.type=FIFO ",
    )  # fmt: skip
    assert rmqadmin("updateTopic", *words).status == 0
    row, *_ = rmqadmin("-o", "json", "topicRoute", "-t", topic).items
    assert (row["read_queue_nums"], row["perm"]) == (3, 4)
    assert rmqadmin("-o", "json", "updateOrderConf", "-m", " get ", "-t", topic).status == 0


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("updateTopic -t 'a b'", 1),
        ("updateTopic -t " + "x" * 128, 1),
        ("updateTopic -t TBW102", 1),
        ("updateTopic -t rmq_sys_mine", 1),
        ("updateTopic -t NEW -a +no.such=1", 1),
        ("updateTopic -t NEW -a=-message.type", 1),
        ("updateTopic -t NEW -a +message.type=WRONG -o true", 1),
        ("updateTopic -t THERE -a +message.type=WRONG", 1),
        ("updateTopic -t THERE -a +queue.type=SimpleCQ", 1),
        ("updateTopic -t THERE -a=-reserve.time", 1),
        ("updateTopic -t NEW -r 99999", 1),
        ("topic create NEW --queues 99999", 1),
        ("updateTopicPerm -t SELF_TEST_TOPIC -p R", 1),
        ("updateTopicList -f FILE", 1),
        ("deleteTopic -t TBW102", 1),
        ("topic delete SELF_TEST_TOPIC --yes", 1),
        ("updateSubGroup -g 'a b'", 1),
        ("updateSubGroup -g G -q 99999", 1),
        ("updateSubGroup -g G --attributes +priority.factor=999", 1),
        ("setConsumeMode -t %RETRY%G -g G -m POP", 4),
        ("setConsumeMode -t NEW -g G -m POP", 5),
        ("updateBrokerConfig -k rocketmqHome -v /tmp", 4),
        ("updateBrokerConfig -k configBlackList -v x", 4),
    ],
)
def test_a_dry_run_foretells_what_brokers_refuse_by_their_rules(
    rmqadmin: Rmqadmin, fresh: Fresh, tmp_path: Path, command: str, status: int
) -> None:
    """A dry run used to announce that it would be done."""
    there = fresh("DryTopic")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", there)
    (tmp_path / "list.json").write_text(f'[{{"topicName":"{there}","perm":4}},{{"topicName":"rmq_sys_mine"}}]')
    for word, meant in (("NEW", fresh("DryNew")), ("THERE", there), ("FILE", str(tmp_path / "list.json"))):
        command = command.replace(f" {word}", f" {meant}")
    words = (*shlex.split(command), "-c", CLUSTER)
    dry, real = rmqadmin(*words, "--dry-run"), rmqadmin(*words)
    assert (dry.status, dry.out, said(dry)) == (real.status, real.out, said(real))
    assert dry.status == status


def said(ran: Ran) -> list[str]:
    """What went wrong, without how to undo what may have been done."""
    return [line for line in ran.err.splitlines() if line.startswith("rmqadmin: error: ")]


@pytest.mark.parametrize("command", ["deleteTopic -t", "topic delete --yes"])
def test_a_topic_that_a_broker_refuses_to_delete_keeps_its_route(
    rmqadmin: Rmqadmin, admin: AdminClient, command: str
) -> None:
    """The name servers forgot it all the same, and producers could no longer create topics by sending."""
    topic = "SELF_TEST_TOPIC"
    ran = rmqadmin(*command.split(), topic, "-c", CLUSTER, status=1, out="")
    assert ran.err.count("conflict with system topic") == 1
    assert len(admin.topic_route(topic).broker_datas) == 1


def test_a_topic_that_a_broker_refuses_to_make_has_no_order(
    rmqadmin: Rmqadmin, admin: AdminClient, fresh: Fresh
) -> None:
    topic = fresh("TooManyQueues")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-w", "99999", "-o", "true", status=1, out="")
    assert read_value(admin, ORDER_TOPIC_NAMESPACE, topic) is None


def test_our_broker_refuses_static_topics_with_what_to_do(
    rmqadmin: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ran = rmqadmin("updateStaticTopic", "-t", "NoStatic", "-qn", "2", "-b", "broker-a", status=1)
    assert "static topics are not served by this broker: create a plain topic (updateTopic)" in ran.err
