"""The small files that a broker reads at its start, besides messages: tables of a wrong shape, users, and the files
that tell it its place in a set. The check judges each as a start does."""

from pathlib import Path
from typing import Any

import pytest

from rmqproto.errors import StorageError
from rmqserver.broker.controlled.identity import IdentityFiles
from rmqserver.store.checks.finding import FindingKind, Severity, StoreFinding
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.whole_files import BACKUP
from rmqserver.store.epochs import Epoch, EpochFile, EpochList
from rmqserver.store.found.found_tables import FoundTables
from rmqserver.store.sequences import sequence_table
from rmqserver.store.timers.timer_check import TimerCheckpoint
from tests.rmqserver.store.checks.stores import Damaged, fill
from tests.rmqserver.store.golden import unpack
from tests.support import servers

EPOCHS, IDENTITY = "epochFileCheckpoint", "brokerIdentity"
SEQUENCES = "producerSequences"


@pytest.fixture(scope="module")
def member(tmp_path_factory: Any) -> Path:
    """The store of a broker in a set."""
    root = fill(tmp_path_factory.mktemp("member") / "store")
    file = EpochFile(f"{root}/{EPOCHS}", OsDisk())
    for epochs in ([Epoch(1, 0)], [Epoch(1, 0), Epoch(3, 900)]):
        file.epochs = EpochList(epochs)
        file.save()
    identity(root).save(2)
    sequence_table.FILE.write(OsDisk(), f"{root}/{SEQUENCES}", sequence_table.Saved(0, 0, 0, []))
    return root


def identity(root: Path, disk: Any = None) -> IdentityFiles:
    return IdentityFiles(f"{root}/{IDENTITY}", "DefaultCluster", "broker-a", disk or OsDisk())


def loaded(damaged: Damaged) -> Any:
    """The epochs and the id that a broker under a controller loads; None if it refuses."""
    try:
        file = EpochFile(f"{damaged.root}/{EPOCHS}", damaged.disk)
        file.load()
        return file.epochs.entries, identity(damaged.root, damaged.disk).load()
    except StorageError:
        return None


def one(findings: list[StoreFinding]) -> StoreFinding:
    assert len(findings) == 1, findings
    return findings[0]


def test_the_files_of_a_set_are_known_and_clean(member: Path) -> None:
    assert [each for each in Damaged.of(member).check().findings if each.path[:5] in ("epoch", "broke", "produ")] == []


def test_how_far_a_master_has_delivered_timers_is_no_damage_at_its_slave(tmp_path: Path) -> None:
    """The check used to report it for every slave, whose master had saved that before, or never, and had taken in
    more."""
    root = fill(tmp_path / "store")
    path = f"{root}/config/timercheck"
    told = TimerCheckpoint(read_time_ms=1_795_661_552_000, log_position=520, queue_offset=9000, version_timestamp_ms=0)
    TimerCheckpoint.of_master_untrusted(told.packed()).write_alone(OsDisk(), path)
    assert [each for each in Damaged.of(root).check().findings if each.path == "config/timercheck"] == []


@pytest.mark.parametrize("name", [EPOCHS, EPOCHS + BACKUP])
def test_every_flipped_byte_of_them_is_found_or_read_as_before(member: Path, name: str) -> None:
    usual = loaded(Damaged.of(member))
    for at in range((member / name).stat().st_size):
        damaged = Damaged.of(member)
        damaged.flip(name, at, 0x10)
        found, taken = damaged.found(), loaded(damaged)
        assert (taken is None) == any("refuses to start" in each.ours for each in found), (at, found)
        assert found or taken == usual, at


@pytest.mark.parametrize("text", ["", "DefaultCluster#broker-a", "DefaultCluster#broker-a#b"])
def test_an_identity_that_is_none_keeps_a_controlled_broker_from_starting(member: Path, text: str) -> None:
    damaged = Damaged.of(member)
    damaged.cut(IDENTITY, 0)
    damaged.write(IDENTITY, text.encode(), 0)
    found = one(damaged.found())
    assert (found.severity, found.kind, found.path) == (Severity.ERROR, FindingKind.IDENTITY, IDENTITY)
    assert loaded(damaged) is None


def test_both_copies_of_the_epochs_damaged_keep_a_controlled_broker_from_starting(member: Path) -> None:
    damaged = Damaged.of(member)
    damaged.cut(EPOCHS, 5)
    found = one(damaged.found())
    assert (found.severity, found.kind, found.path) == (Severity.WARNING, FindingKind.EPOCHS, EPOCHS)
    assert found.ours == "takes epochFileCheckpoint.bak"
    damaged.cut(EPOCHS + BACKUP, 0)
    assert {(each.severity, each.ours, each.apache) for each in damaged.found()} == {
        (Severity.ERROR, "refuses to start under a controller", "begins without epochs")
    }
    assert loaded(damaged) is None


def test_an_epoch_behind_the_log_says_that_the_log_was_longer(member: Path) -> None:
    damaged = Damaged.of(member)
    file = EpochFile(f"{member}/{EPOCHS}", damaged.disk)
    file.epochs = EpochList([Epoch(1, 0), Epoch(4, 1 << 40)])
    file.save()
    found = one(damaged.found())
    assert (found.severity, found.kind) == (Severity.ERROR, FindingKind.LOG_LOST)
    assert found.what.startswith("epoch 4 begins at log offset 1099511627776, and the log ends at ")


def test_producers_numbers_are_made_anew_from_the_log(member: Path) -> None:
    damaged = Damaged.of(member)
    damaged.flip(SEQUENCES, 13, 1)
    found = one(damaged.found())
    assert (found.severity, found.kind) == (Severity.WARNING, FindingKind.SEQUENCES)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("topics.json", '{"topicConfigTable":{"A":{"perm":"x"}}}'),
        ("transactionMetrics", '{"transactionCount":5}'),
        ("slaveLog.json", '{"slaveLog":{"isSlave":"maybe"}}'),
        ("auth.json", '{"users":{"A":{"username":"A","password":"hunter2"}}}'),
    ],
)
def test_a_table_that_is_none_stops_our_broker_though_its_copy_is_whole(
    tmp_path: Path, name: str, text: str
) -> None:  # fmt: skip
    """The check used to say that the copy was taken, and did not know users as a table."""
    root = tmp_path / "store"
    for directory in ("commitlog", "config"):
        (root / directory).mkdir(parents=True)
    for path, content in ((root / "config" / name, text), (root / "config" / f"{name}.bak", "{}")):
        path.write_text(content)
    found = one([each for each in Damaged.of(root).found() if each.path == f"config/{name}"])
    assert found.severity is Severity.ERROR
    assert found.ours.startswith("refuses to start")
    assert "hunter2" not in str(found)
    with pytest.raises(RuntimeError, match=name):
        servers.standalone(tmp_path, "--set", "authenticationEnabled=true").stop()


def test_a_table_that_only_apache_reads_does_not_stop_our_broker(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for directory in ("commitlog", "config"):
        (root / directory).mkdir(parents=True)
    (root / "config/consumerFilter.json").write_text("no table")
    found = one([each for each in Damaged.of(root).found() if each.path == "config/consumerFilter.json"])
    assert (found.severity, found.ours, found.apache) == (Severity.ERROR, "does not read it", "refuses to start")
    servers.standalone(tmp_path).stop()
    assert (root / "config/consumerFilter.json").read_text() == "no table"


def test_users_are_told_without_their_passwords(tmp_path: Path) -> None:
    user = '{"username":"A","password":"hunter2","userType":"Super","userStatus":"enable"}'
    entry = '{"resource":"Topic:T","actions":["Pub"],"decision":"Allow"}'
    policies = f'{{"policies":[{{"policyType":"Custom","entries":[{entry}]}}]}}'
    (tmp_path / "auth.json").write_text(f'{{"users":{{"A":{user}}},"acls":{{"User:A":{policies}}}}}')
    table = FoundTables(str(tmp_path), OsDisk()).all["auth.json"]
    assert table.is_usable
    assert table.entries.keys() == {"A", "User:A"}
    assert table.entries["A"] == {"username": "A", "userType": "Super", "userStatus": "enable"}


def test_what_is_not_read_here_is_told(tmp_path: Path) -> None:
    """A store in RocksDB used to count as clean: only notes said that its queues and tables were not read."""
    root = unpack("rocksdb", tmp_path)
    (root / "mine.txt").touch()
    found = Damaged.of(root).check().findings
    assert {each.path for each in found if each.kind is FindingKind.NOT_CHECKED} == {
        "consumequeue", "config/topics", "config/subscriptionGroups", "config/consumerOffsets",
    }  # fmt: skip
    assert [each.path for each in found if each.kind is FindingKind.STRANGER] == ["mine.txt"]
