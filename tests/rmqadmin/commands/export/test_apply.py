"""``export``, ``diff`` and ``apply`` on two real brokers, and the examples of ``docs/changes.md``."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqadmin.core.servers.exports import user_groups, user_topics
from rmqproto.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.commands.export.conftest import Pair
from tests.rmqadmin.conftest import CLUSTER, Ran, Rmqadmin
from tests.rmqadmin.conftest import Terminal as Terminal
from tests.rmqadmin.conftest import status as status_of
from tests.rmqadmin.pages.page_lines import ROOT, run_lines
from tests.support.replayed import Replayed

pytestmark = pytest.mark.xdist_group("manifests")

Written = Callable[[str], str]
WANTED = """
topics:
  orders: {readQueueNums: 4, writeQueueNums: 4, perm: R, attributes: {message.type: FIFO}}
  only-a: {brokers: [broker-a]}
  differs: {readQueueNums: 4, writeQueueNums: 2, brokers: {broker-a: {}, broker-b: {readQueueNums: 2}}}
groups:
  billing: {retryMaxTimes: 3}
"""


def outcome(ran: Ran) -> list[tuple[str, str, str, bool]]:
    assert ran.err == "" or "to undo this: rmqadmin apply -f " in ran.err, ran.err
    return [(item["kind"], item["name"], item["action"], item["done"]) for item in ran.items]


def test_apply_creates_once_and_diff_follows(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    there = ("-f", manifest(WANTED), "-c", CLUSTER, "-o", "json")
    differs = run("diff", *there, status=1)
    assert len(outcome(differs)) == 7
    planned = run("apply", *there, "--dry-run")
    assert (planned.status, outcome(planned)) == (0, outcome(differs))
    assert "orders" not in pair.admin.all_topics(pair.a).topic_config_table

    done = run("apply", *there, status=0)
    assert sorted(outcome(done)) == sorted((kind, name, "create", True) for kind, name, _, _ in outcome(planned))
    topics = [pair.admin.all_topics(addr).topic_config_table for addr in (pair.a, pair.b)]
    assert [table["orders"].perm for table in topics] == [4, 4]
    assert [table["orders"].attributes for table in topics] == [{"message.type": "FIFO"}] * 2
    assert ["only-a" in table for table in topics] == [True, False]
    assert [table["differs"].read_queue_nums for table in topics] == [4, 2]
    assert pair.admin.all_groups(pair.b).subscription_group_table["billing"].retry_max_times == 3

    again = run("apply", *there)
    assert (again.status, again.items, again.document["summary"]["kept_count"]) == (0, [], 7)
    same = run("diff", *there)
    assert (same.status, same.items) == (0, [])


def test_what_is_not_said_stays(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    run("apply", "-f", manifest(WANTED), "-c", CLUSTER)
    text = "topics: {orders: {perm: RW, attributes: {-message.type: ''}}}"
    (one, other) = run("apply", "-f", manifest(text), "-c", CLUSTER, "-o", "json").items
    changes = [{"field": "perm", "before": 4, "after": 6}, {"field": "message.type", "before": "FIFO", "after": None}]
    assert one["changes"] == other["changes"] == changes
    config = pair.admin.topic_config(pair.a, "orders")
    assert (config.read_queue_nums, config.perm, config.attributes) == (4, 6, {})


@pytest.mark.parametrize("format", ["yaml", "json"])
def test_what_is_exported_comes_back_unchanged(
    pair: Pair, run: Rmqadmin, manifest: Written, tmp_path: Path, format: str
) -> None:
    run("apply", "-f", manifest(WANTED), "-c", CLUSTER)
    files = []
    for what in ("topics", "groups"):
        files.append(tmp_path / f"{what}.{format}")
        files[-1].write_text(run("export", what, "-c", CLUSTER, "--format", format).out)
    there = [word for file in files for word in ("-f", str(file))]
    same = run("diff", *there, "-c", CLUSTER, "-o", "json")
    assert (same.status, same.document["summary"]["kept_count"]) == (0, 7)

    run("apply", "-f", manifest("topics: {}\ngroups: {}\n"), "-c", CLUSTER, "--prune", CLUSTER)
    assert run("export", "topics", "-c", CLUSTER, "-o", "json").items == []
    assert run("apply", *there, "-c", CLUSTER).status == 0
    for what, file in zip(("topics", "groups"), files, strict=True):
        assert run("export", what, "-c", CLUSTER, "--format", format).out == file.read_text()


def test_a_file_may_hold_several_documents_and_come_through_a_pipe(
    pair: Pair, run: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "---\ntopics: {piped: {}}\n---\ngroups: {piped: {}}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert {(kind, name) for kind, name, _, _ in outcome(run("apply", "-f", "-", "-b", pair.a, "-o", "json"))} == {
        ("topic", "piped"),
        ("group", "piped"),
    }


def test_pruning_needs_the_name_of_the_cluster(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    run("apply", "-f", manifest(WANTED), "-c", CLUSTER)
    there = ("-f", manifest("topics: {orders: {}}"), "-c", CLUSTER)
    for typed in ("yes", "*", "defaultcluster"):
        ran = run("apply", *there, "--prune", typed, "--yes")
        assert (ran.status, "that is not the cluster" in ran.err) == (2, True)
    planned = run("diff", *there, "--prune", CLUSTER, "-o", "json")
    assert {item["name"] for item in planned.items} == {"only-a", "differs"}
    pruned = run("apply", *there, "--prune", CLUSTER, "-o", "json")
    assert {item["action"] for item in pruned.items} == {"delete"}
    assert pair.namesrv_addr in {item["target"] for item in pruned.items}
    assert pair.admin.all_groups(pair.a).subscription_group_table.keys() >= {"billing"}  # the file has no groups
    rest = yaml.safe_load(run("export", "topics", "-c", CLUSTER).out)
    assert rest["topics"].keys() == {"orders"}


def test_what_must_be_absent_is_deleted_with_a_yes_alone(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    pair.admin.create_topic(pair.a, TopicConfig(topic_name="doomed"))
    there = ("-f", manifest("topics: {doomed: {absent: true}}"), "-c", CLUSTER)
    refused = run("apply", *there)
    assert (refused.status, "Nobody can be asked to confirm it" in refused.err) == (2, True)
    lost = "rmqadmin: doomed: 0 messages would be lost; no group is online or has offsets there\n"
    assert all(run(command, *there).err.count(lost) == 1 for command in ("diff", "apply"))
    assert "doomed" in pair.admin.all_topics(pair.a).topic_config_table
    done = run("apply", *there, "--yes", "-o", "json")
    assert [item["target"] for item in done.items] == [pair.a, pair.namesrv_addr]
    assert "doomed" not in pair.admin.topic_list()
    assert run("diff", *there).status == 0


def test_a_topic_that_a_broker_refuses_to_delete_keeps_its_route(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    absent = manifest("topics: {SELF_TEST_TOPIC: {absent: true}}")
    run("apply", "-f", absent, "-c", CLUSTER, "--yes", status=1, err="conflict with system topic")
    assert len(pair.admin.topic_route("SELF_TEST_TOPIC").broker_datas) == 2


def test_an_undo_file_leads_back(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    run("apply", "-f", manifest(WANTED), "-c", CLUSTER)
    before = [run("export", what, "-c", CLUSTER).out for what in ("topics", "groups")]
    text = "topics: {orders: {perm: RW, attributes: {-message.type: ''}}, new: {}}\ngroups: {billing: {absent: true}}"
    done = run("apply", "-f", manifest(text), "-c", CLUSTER, "--prune", CLUSTER, "-o", "json")
    undo = done.document["summary"]["undo_file"]
    assert f"to undo this: rmqadmin apply -f {undo}" in done.err
    assert oct(Path(undo).stat().st_mode & 0o777) == "0o600"
    assert [run("export", what, "-c", CLUSTER).out for what in ("topics", "groups")] != before
    assert run("apply", "-f", undo, "--yes").status == 0
    assert [run("export", what, "-c", CLUSTER).out for what in ("topics", "groups")] == before


def test_a_broker_that_cannot_be_reached_does_not_keep_the_others_from_being_changed(
    pair: Pair, ghost: str, run: Rmqadmin, manifest: Written
) -> None:
    there = ("-f", manifest("topics: {orders: {}}"), "-c", CLUSTER)
    ran = run("apply", *there, "-o", "json", status=1)
    assert {item["target"]: item["error"] is None for item in ran.items} == {pair.a: True, pair.b: True, ghost: False}
    assert run("diff", *there).status == 3  # the difference is unknown
    for command in (("updateTopic", "-t", "orders", "-r", "4"), ("updateTopicPerm", "-t", "orders", "-p", "R")):
        ran = run(*command, "-c", CLUSTER, "--output", "json")
        done = {item["target"]: item["done"] for item in ran.items}
        assert done == {pair.a: True, pair.b: True} | ({ghost: False} if "-r" in command else {})
        assert ran.status == (1 if "-r" in command else 0)


def test_what_was_done_on_one_broker_and_refused_by_the_other_has_a_way_back(
    pair: Pair, run: Rmqadmin, manifest: Written
) -> None:
    """A cleanup policy cannot be set a second time."""
    policy = {"+cleanup.policy": "DELETE"}
    pair.admin.create_topic(pair.b, TopicConfig(topic_name="log", attributes=policy))
    changed = ("-t", "log", "-c", CLUSTER, "-r", "3", "-a", "+cleanup.policy=DELETE")
    ran = run("updateTopic", *changed, status=1, err="1 of 2 failed")
    (command,) = [line for line in ran.err.splitlines() if "to undo what was done: rmqadmin apply -f " in line]
    assert "log" in pair.admin.all_topics(pair.a).topic_config_table
    assert run("apply", "-f", command.split()[-1], "--yes").status == 0
    assert "log" not in pair.admin.all_topics(pair.a).topic_config_table
    assert pair.admin.topic_config(pair.b, "log").attributes == {"cleanup.policy": "DELETE"}
    assert run("diff", "-f", manifest("topics: {log: {readQueueNums: 16}}"), "-b", pair.b).status == 0


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("topics: {a: {readQueueNum: 5}}", "wanted.yaml: topics.a: there is no field readQueueNum", "readQueueNums?"),
        ("topic: {a: {}}", "wanted.yaml: there is no field topic", "topics?"),
        (
            '{"_command": "export topics", "_version": 1, "items": []}',
            "these are rows of a command's output",
            "--format json",
        ),
        ("topics: {a: {broker: [x]}}", "topics.a: there is no field broker", "brokers?"),
        ("topics: {a: {brokers: {x: {prem: 6}}}}", "topics.a: there is no field prem", "perm?"),
        ("groups: {a: {groupRetryPolicy: {typ: X}}}", "groups.a.groupRetryPolicy: there is no field typ", "type?"),
        (
            "groups: {a: {groupRetryPolicy: {customizedRetryPolicy: {nexts: [1]}}}}",
            "a.groupRetryPolicy.customizedRetryPolicy: there is no field nexts",
            "next?",
        ),
        ("acls: {a: {policies: [{entries: [{action: X}]}]}}", "acls.a.policies[0].entries[0]", "actions?"),
        ("topics:\n  a: {}\n  a: {}\n", "wanted.yaml:2: a is there twice", ""),
        ("topics:\n  a: {readQueueNums: 010}\n", "wanted.yaml:2: 010 is not a decimal number", ""),  # it was 8
        ("topics: {a: {readQueueNums: 1_6}}", "1_6 is not a decimal number", ""),  # 16
        ("topics: {a: {writeQueueNums: 1:30}}", "1:30 is not a decimal number", ""),  # 90
        ('{"topics": {"a": {}, "a": {}}}', "a is there twice", ""),
        ("topics: {a: {}}\n---\ntopics: {a: {}}", "topics.a is there twice", ""),
        ("topics: {a: {perm: six}}", "topics.a: Expected `int`", ""),
        ("topics: {a: {readQueueNums: -1}}", "topics.a: readQueueNums is -1, but the least is 0", ""),
        ("topics:\n  b: {}\n\ta: {}\n", "wanted.yaml:3: ", "begins with a tab"),
        ("topics:\n\ta:\n\t\tperm: RW\n", "wanted.yaml:2: ", "begins with a tab"),
        ("topics: {a: [1]}", "topics.a is not an object", "readQueueNums"),
        ("topics: [a]", "topics must be objects by name", ""),
        ("topics: {a: {brokers: broker-a}}", "topics.a: brokers must name brokers", ""),
        ("users: {a: {userType: Supper}}", "users.a: userType must be Super or Normal", ""),
        ("_version: 2\ntopics: {}", "_version 2 is not known", ""),
        ("topics: {a: {", "wanted.yaml:2: ", ""),
        ("{", "wanted.yaml:1: this is not JSON", ""),
        ("- a", "holds no object", ""),
        ("a: &a [*a]", "there is no field a", ""),
        ("", "has no section", ""),
    ],
)
def test_a_file_that_says_something_else_is_an_error(
    run: Rmqadmin, manifest: Written, text: str, said: str, hint: str
) -> None:
    ran = run("diff", "-f", manifest(text), "-b", "127.0.0.1:1", "-n", "127.0.0.1:1", status=2, out="", err=said)
    assert hint in ran.err.partition("hint: ")[2]


def test_a_broker_that_the_cluster_lacks_is_an_error(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    ran = run("apply", "-f", manifest("topics: {a: {brokers: [broker-c]}}"), "-c", CLUSTER, status=5)
    assert "there is no broker broker-c\nhint: There are broker-a, broker-b." in ran.err


def test_names_that_yaml_takes_for_something_else_are_names(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    run("apply", "-f", manifest("topics: {on: {}, 12: {}, null: {}, 1e3: {}}"), "-b", pair.a)
    assert pair.admin.all_topics(pair.a).topic_config_table.keys() >= {"on", "12", "null", "1e3"}
    again = manifest(run("export", "topics", "-c", CLUSTER).out)
    assert run("diff", "-f", again, "-c", CLUSTER).status == 0


def test_diff_tells_a_refusal_from_a_difference(run: Rmqadmin, manifest: Written) -> None:
    """A broker that has no users, as before 5.3.0."""
    with Replayed() as old:
        ran = run("diff", "-f", manifest("users: {alice: {}}"), "-b", old.address, "-n", old.address)
    assert ran.status == 2
    assert "refused by" in ran.err


ACCESS = """
users:
  alice: {userType: Normal, password: wonderland}
  bob: {userType: Normal, password: builder}
acls:
  User:alice:
    policies:
    - policyType: Custom
      entries:
      - {resource: "Topic:orders", actions: [Pub, Sub], decision: Allow, sourceIps: [10.0.0.0/8]}
"""


def test_users_and_acls_go_the_same_way(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    done = run("apply", "-f", manifest(ACCESS), "-c", CLUSTER, "-o", "json")
    assert (done.status, done.document["summary"]["created_count"]) == (0, 6)
    assert "wonderland" not in done.out + done.err
    assert [item["kind"] for item in done.items] == ["user"] * 4 + ["acl"] * 2  # a user before its permissions
    assert run("diff", "-f", manifest(ACCESS), "-c", CLUSTER).status == 0

    exported = {what: run("export", what, "-c", CLUSTER).out for what in ("users", "acls")}
    assert "wonderland" not in exported["users"]
    assert run("diff", "-f", manifest(exported["users"] + exported["acls"]), "-c", CLUSTER).status == 0
    change = "users: {bob: {userStatus: disable}}\nacls: {'User:alice': {policies: []}}"
    run("apply", "-f", manifest(change), "-c", CLUSTER)
    accounts = [pair.admin.account(addr, "bob") for addr in (pair.a, pair.b)]
    assert [account and account.user_status for account in accounts] == ["disable"] * 2
    assert run("export", "acls", "-c", CLUSTER).out == exported["acls"]  # what the file does not mention stays

    whole = run("export", "users", "-c", CLUSTER, "--with-passwords").out + exported["acls"]
    gone = run("apply", "-f", manifest("users: {}\nacls: {}"), "-c", CLUSTER, "--prune", CLUSTER, "-o", "json")
    assert [item["kind"] for item in gone.items] == ["acl"] * 2 + ["user"] * 4
    refused = run("apply", "-f", manifest(exported["users"]), "-c", CLUSTER)
    assert (refused.status, "is new at" in refused.err, "has no password" in refused.err) == (2, True, True)
    assert run("apply", "-f", manifest(whole), "-c", CLUSTER).status == 0
    alice = pair.admin.account(pair.b, "alice")
    assert alice.password == "wonderland"
    assert run("export", "acls", "-c", CLUSTER).out == exported["acls"]


@pytest.mark.slow  # two terminals
def test_a_person_sees_the_plan_and_types_the_name(
    pair: Pair, terminal: Terminal, manifest: Written, run: Rmqadmin
) -> None:
    words = ("apply", "-f", manifest("topics: {orders: {perm: R}}"), "-c", CLUSTER)
    child = terminal(*words, env={"NAMESRV_ADDR": pair.namesrv_addr})
    child.expect(r"\+ topic orders on 127.0.0.1:\d+\r\n")
    child.expect(f"Type {CLUSTER} to go on: ")
    child.sendline("no")
    assert status_of(child) == 1
    assert "orders" not in pair.admin.all_topics(pair.a).topic_config_table
    child = terminal(*words, env={"NAMESRV_ADDR": pair.namesrv_addr})
    child.expect("to go on: ")
    child.sendline(CLUSTER)
    child.expect("2 created")
    assert status_of(child) == 0


def test_people_read_a_diff(pair: Pair, run: Rmqadmin, manifest: Written) -> None:
    pair.admin.create_topic(pair.a, TopicConfig(topic_name="orders", read_queue_nums=8))
    ran = run("diff", "-f", manifest("topics: {orders: {readQueueNums: 4, perm: R}}"), "-b", pair.a)
    assert ran.out == f"~ topic orders on {pair.a}\n    perm RW (6) -> R (4)\n    read_queue_nums 8 -> 4\n1 to change\n"
    assert json.loads(run("diff", "-f", "wanted.yaml", "-b", pair.a, "-o", "jsonl").out)["action"] == "change"


TOPIC = st.builds(
    TopicConfig,
    topic_name=st.just(""),
    read_queue_nums=st.integers(1, 64),
    write_queue_nums=st.integers(1, 64),
    perm=st.integers(0, 7),
    order=st.booleans(),
    topic_sys_flag=st.integers(0, 3),
    attributes=st.dictionaries(st.just("+message.type"), st.sampled_from(["NORMAL", "FIFO", "DELAY", "TRANSACTION"])),
)
GROUP = st.builds(
    SubscriptionGroupConfig,
    group_name=st.just(""),
    consume_enable=st.booleans(),
    consume_from_min_enable=st.booleans(),
    consume_broadcast_enable=st.booleans(),
    consume_message_orderly=st.booleans(),
    retry_max_times=st.integers(-1, 100),
    retry_queue_nums=st.integers(0, 8),
    consume_timeout_minute=st.integers(1, 60),
    group_retry_policy=st.builds(
        GroupRetryPolicy,
        type=st.just("CUSTOMIZED"),
        customized_retry_policy=st.none()
        | st.fixed_dictionaries({"next": st.lists(st.integers(1, 10**6), min_size=1)}),
    ),
)
NAME = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
PER_BROKER = st.sampled_from(["a", "b"])


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    topics=st.dictionaries(NAME, st.dictionaries(PER_BROKER, TOPIC, min_size=1), max_size=4),
    groups=st.dictionaries(NAME, st.dictionaries(PER_BROKER, GROUP, min_size=1), max_size=3),
    format=st.sampled_from(["yaml", "json"]),
)
def test_whatever_brokers_have_is_exported_and_comes_back(
    pair: Pair,
    run: Rmqadmin,
    manifest: Written,
    topics: dict[str, dict[str, TopicConfig]],
    groups: dict[str, dict[str, SubscriptionGroupConfig]],
    format: str,
) -> None:
    pruned = ("apply", "-f", manifest("topics: {}\ngroups: {}\n"), "-c", CLUSTER, "--prune", CLUSTER)
    assert run(*pruned).status == 0
    for name, topic_by_broker in topics.items():
        for broker, topic in topic_by_broker.items():
            pair.admin.create_topic(getattr(pair, broker), replace(topic, topic_name=f"t-{name}"))
    for name, group_by_broker in groups.items():
        for broker, group in group_by_broker.items():
            pair.admin.create_group(getattr(pair, broker), replace(group, group_name=f"g-{name}"))
    exported = {what: run("export", what, "-c", CLUSTER, "--format", format).out for what in ("topics", "groups")}
    there = []
    for what, text in exported.items():
        Path(f"{what}.exported").write_text(text)
        there += ["-f", f"{what}.exported"]
    tables = [tables_of(pair, addr) for addr in (pair.a, pair.b)]
    assert run("diff", *there, "-c", CLUSTER).status == 0
    assert run(*pruned).status == 0
    assert run("apply", *there, "-c", CLUSTER).status == 0
    assert [tables_of(pair, addr) for addr in (pair.a, pair.b)] == tables


def tables_of(pair: Pair, addr: str) -> tuple[object, object]:
    return user_topics(pair.admin, addr).topic_config_table, user_groups(pair.admin, addr).subscription_group_table


@pytest.mark.parametrize("command", ["diff", "apply", "apply --dry-run"])
@pytest.mark.parametrize("section", ["topics", "groups"])
def test_a_name_that_brokers_refuse_is_refused_before_anything_is_changed(
    pair: Pair, run: Rmqadmin, manifest: Written, section: str, command: str
) -> None:
    """A dry run used to announce the topic or group, and `apply` used to change the others first."""
    ran = run(*command.split(), "-f", manifest(f"{section}: {{orders: {{}}, 'a b': {{}}}}"), "-c", CLUSTER)
    assert (ran.status, ran.out) == (2, "")
    assert ": a b, contains illegal characters" in ran.err
    assert "orders" not in pair.admin.all_topics(pair.a).topic_config_table


def test_the_examples_of_the_page_work_in_their_order(
    pair: Pair, run: Rmqadmin, manifest: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wanted,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/changes.md").read_text(), re.DOTALL)
    manifest(wanted)
    assert len(run_lines(run, "docs/changes.md", {}, monkeypatch)) > 12
