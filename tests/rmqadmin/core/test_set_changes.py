"""Which changes of broker sets are noticed from look to look."""

from rmqadmin.core.servers.ha_sets import HaMember, HaSet
from rmqadmin.core.servers.set_changes import SetChanges
from rmqproto.bodies.replication import HaStatus, ReplicaIdentity, ReplicaSet

ADDRS = {1: "10.0.0.1:10911", 2: "10.0.0.2:10911"}


def at(master: int | None, epoch: int, in_sync: set[int], *, claiming: int | None = None, dead: int = 0) -> HaSet:
    """A set whose controller names ``master`` in ``epoch``. ``claiming`` acts as the master, by default the same
    broker."""
    claims = master if claiming is None else claiming
    members = [
        HaMember(broker_id=each, broker_addr=addr, error="refused")
        if each == dead
        else HaMember(broker_id=each, broker_addr=addr, status=HaStatus(master=each == claims))
        for each, addr in ADDRS.items()
    ]
    known = ReplicaSet(
        in_sync_replicas=[ReplicaIdentity(broker_id=each, broker_address=ADDRS[each]) for each in sorted(in_sync)],
        master_broker_id=master,
        master_address=None if master is None else ADDRS[master],
        master_epoch=epoch,
    )
    return HaSet(cluster="c", broker_name="a", members=members, has_controllers=True, known=known)


def texts(seen: SetChanges) -> list[str]:
    return [change.text for change in reversed(seen.newest_first())]


def test_the_first_look_and_one_like_it_say_nothing() -> None:
    seen = SetChanges()
    assert seen.look(1000, [at(1, 1, {1, 2})]) == []
    assert seen.look(2000, [at(1, 1, {1, 2})]) == []
    assert seen.without_master_ms("a", 2000) is None


def test_a_master_that_is_lost_and_the_next_one() -> None:
    seen = SetChanges()
    seen.look(1000, [at(1, 1, {1, 2})])
    seen.look(2000, [at(1, 1, {1, 2}, dead=1)])
    assert texts(seen) == ["has no master: 10.0.0.1:10911 does not answer"]
    seen.look(2500, [at(None, 2, {1, 2}, dead=1)])
    assert seen.without_master_ms("a", 2500) == 1500
    assert len(texts(seen)) == 1, "it is said once"
    seen.look(3000, [at(2, 3, {2}, claiming=0, dead=1)])
    seen.look(3200, [at(2, 3, {2}, dead=1)])
    assert texts(seen)[1:] == [
        "id 1 is not in sync any more, 1 of 2 are",
        "10.0.0.2:10911 became its master, after 10.0.0.1:10911, epoch 1 → 3; it had none for at most 2 s",
    ]
    assert seen.without_master_ms("a", 3300) is None
    changes = seen.look(9000, [at(2, 3, {1, 2})])
    assert [change.text for change in changes] == ["id 1 is in sync, 2 of 2 are"]


def test_a_planned_handover_between_two_looks_shows_no_gap() -> None:
    seen = SetChanges()
    seen.look(1000, [at(1, 1, {1, 2})])
    seen.look(2000, [at(2, 2, {1, 2})])
    assert texts(seen) == ["10.0.0.2:10911 became its master, after 10.0.0.1:10911, epoch 1 → 2"]


def test_the_same_master_again_and_anew() -> None:
    seen = SetChanges()
    seen.look(1000, [at(1, 1, {1, 2})])
    seen.look(2000, [at(1, 1, {1, 2}, dead=1)])
    seen.look(2500, [at(1, 1, {1, 2})])
    seen.look(3000, [at(1, 2, {1, 2})])
    assert texts(seen)[1:] == [
        "10.0.0.1:10911 is its master again; it had none for at most 1 s",
        "10.0.0.1:10911 was made its master anew, epoch 1 → 2",
    ]


def test_a_set_without_controllers_goes_by_its_name_server() -> None:
    def plain(master: int) -> HaSet:
        members = [
            HaMember(broker_id=each, broker_addr=addr, status=HaStatus(master=each == master))
            for each, addr in ADDRS.items()
        ]
        return HaSet(
            cluster="c", broker_name="a", members=members, has_controllers=False, registered_master=ADDRS[master]
        )

    seen = SetChanges()
    seen.look(1000, [plain(1)])
    seen.look(2000, [plain(2)])
    assert texts(seen) == ["10.0.0.2:10911 became its master, after 10.0.0.1:10911"]


def test_a_set_that_never_had_a_master_gets_one() -> None:
    seen = SetChanges()
    seen.look(1000, [at(None, 0, set(), claiming=0)])
    assert seen.without_master_ms("a", 2000) is None
    seen.look(2000, [at(1, 1, {1})])
    assert texts(seen) == ["10.0.0.1:10911 became its master, epoch 0 → 1", "id 1 is in sync, 1 of 2 are"]
