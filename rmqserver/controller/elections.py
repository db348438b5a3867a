"""Election of a master, on request (1002) and when a master is gone, with the codes and texts of
``DefaultElectPolicy`` and ``ReplicasInfoManager.electMaster`` of 5.5.0."""

from __future__ import annotations

from collections.abc import Collection

from rmqproto.bodies.replication import ElectedMaster
from rmqproto.bodies.routes import BrokerMemberGroup
from rmqproto.codes import ResponseCode
from rmqproto.headers.controller import ElectMasterAnswer, ElectMasterHeader
from rmqproto.wire import fastjson
from rmqserver.controller.controller_state import BrokerSet, MasterElected, apply
from rmqserver.controller.decision import STARTED_LATELY, ControllerDecision, Situation

LEAST_EPOCH_MAX = 1 << 30
"""A limit on the epoch that a broker may claim for its log, so that later epochs still fit into 32 bits."""


def elect_master(now: Situation, header: ElectMasterHeader) -> ControllerDecision:
    """1002. A replica asks for a master, and may become it; or an operator designates one."""
    found = now.sets.get(header.broker_name)
    if found is None:
        return ControllerDecision(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "Broker hasn't been registered")
    if found.master_epoch == 0:  # nothing was written yet: the first replica to ask leads
        may_lead = header.broker_id in found.replicas
        if header.designate_elect:
            may_lead = may_lead and now.is_alive(found, header.broker_id)
        chosen = header.broker_id if may_lead else None
    else:
        chosen = choose(now, found, header.broker_id if header.designate_elect else None)
        if not now.is_settled and chosen != found.master_broker_id:
            return ControllerDecision(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, f"Failed to elect a new master: {STARTED_LATELY}"
            )
    if chosen is None:
        return ControllerDecision(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "Failed to elect a new master")
    if chosen == found.master_broker_id:
        remark = f"The old master {chosen} is still alive, not need to elect new master for broker {found.broker_name}"
        body = fastjson.dumps(ElectedMaster(sync_state_set=list(found.sync_state_set)))
        return ControllerDecision(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, remark, _answer(found), body)
    event = MasterElected(found.broker_name, chosen, _least_epoch(now, found, chosen))
    after = apply(now.sets, event)[found.broker_name]
    group = BrokerMemberGroup(
        broker_addrs={broker_id: each.broker_address for broker_id, each in after.replicas.items()},
        broker_name=after.broker_name,
        cluster=after.cluster_name,
    )
    body = fastjson.dumps(
        ElectedMaster(broker_member_group=group, sync_state_set=list(after.sync_state_set)),
        standard=True,  # Apache's mqadmin cannot read the integer keys that Apache's controller writes without quotes
    )
    return ControllerDecision(header=_answer(after), body=body, events=(event,))


def elect_successor(now: Situation, header: ElectMasterHeader, master_epoch: int) -> ControllerDecision:
    """The designated broker, whose predecessor of that epoch has given its lease back."""
    found = now.sets.get(header.broker_name)
    if found is None or found.master_epoch != master_epoch:
        return ControllerDecision(
            ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "Failed to elect a new master: another one was elected"
        )
    return elect_master(now, header)


def _least_epoch(now: Situation, found: BrokerSet, chosen: int) -> int:
    """The least epoch for a set that is new here but has a log, because the controller that knew it was lost: its
    master must not lead in an epoch older than its log."""
    standing = now.alive.get((found.broker_name, chosen))
    if found.master_epoch or standing is None or standing.epoch < 1:
        return 0
    return min(standing.epoch, LEAST_EPOCH_MAX) + 1


def master_lost(now: Situation, found: BrokerSet) -> tuple[MasterElected, ...]:
    """The event that ends the term of a master that is dead, or was restarted and may have lost the end of its log.
    Another replica leads the next term if one may. No event if there is neither a master nor a replica that may
    lead."""
    chosen = choose(now, found, None) if now.is_settled and found.master_epoch else None
    if chosen is None and found.master_broker_id is None:
        return ()
    return (MasterElected(found.broker_name, chosen),)


def sets_to_elect(now: Situation) -> list[BrokerSet]:
    """Sets whose master is dead or missing while another replica lives; none before it is known which brokers live."""
    if not now.is_settled:
        return []
    return [
        each
        for each in now.sets.values()
        if not now.has_living_master(each) and any(now.is_alive(each, broker_id) for broker_id in each.replicas)
    ]


def choose(now: Situation, found: BrokerSet, designated: int | None) -> int | None:
    """The replica that should be master: one that is alive and in sync. If there is none and unclean elections are on,
    one that is alive."""
    chosen = _best(now, found, found.sync_state_set, designated)
    if chosen is None and now.elects_unclean:
        chosen = _best(now, found, found.replicas, designated)
    return chosen


def relief(now: Situation, found: BrokerSet) -> int | None:
    """The replica in sync that should take the place of a living master that takes no messages. None if none of them
    takes any."""
    others = [
        broker_id
        for broker_id in found.sync_state_set
        if broker_id != found.master_broker_id and now.takes_messages(found, broker_id)
    ]
    return _best(now, found, others, None)


def _best(now: Situation, found: BrokerSet, candidates: Collection[int], designated: int | None) -> int | None:
    """The present master, unless another replica is designated. A designated replica, or none if it is not a living
    candidate. Otherwise the replica with the highest epoch, then the longest log, then the lowest priority number."""
    living = [broker_id for broker_id in candidates if now.is_alive(found, broker_id)]
    if found.master_broker_id in living and designated in (None, found.master_broker_id):
        return found.master_broker_id
    if designated is not None:
        return designated if designated in living else None

    def rank(broker_id: int) -> tuple[int, int, int, int]:
        standing = now.alive[found.broker_name, broker_id]
        return -standing.epoch, -standing.max_offset, standing.priority, broker_id

    return min(living, key=rank, default=None)


def _answer(found: BrokerSet) -> ElectMasterAnswer:
    return ElectMasterAnswer(
        master_broker_id=found.master_broker_id,
        master_address=found.master_address,
        master_epoch=found.master_epoch,
        sync_state_set_epoch=found.sync_state_set_epoch,
    )
