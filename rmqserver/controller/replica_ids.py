"""Requests by which replicas get their ids (1012, 1013), register with them (1003), and are forgotten (1011), answered
as by ``ReplicasInfoManager`` of 5.5.0."""

from __future__ import annotations

from rmqproto.codes import ResponseCode
from rmqproto.filters.sql92.java_values import NUMBER_FORMAT_EXCEPTION, int64
from rmqproto.headers.controller import (
    ApplyBrokerIdHeader,
    BrokerSetAnswer,
    CleanBrokerDataHeader,
    NextBrokerIdAnswer,
    NextBrokerIdHeader,
    RegisterToControllerAnswer,
    RegisterToControllerHeader,
)
from rmqserver.controller.controller_state import (
    BrokerAddressUpdated,
    BrokerDataCleaned,
    BrokerIdApplied,
    BrokerSet,
    ControllerEvent,
    apply_all,
)
from rmqserver.controller.decision import STARTED_LATELY, ControllerDecision, Situation, set_body
from rmqserver.controller.elections import master_lost

TEXT_CHARS_MAX = 255
"""Limit for names and addresses, since all of them are stored."""

SETS_MAX, REPLICAS_MAX = 10_000, 1000


def next_broker_id(now: Situation, header: NextBrokerIdHeader) -> ControllerDecision:
    """1012."""
    found = now.sets.get(header.broker_name)
    answer = NextBrokerIdAnswer(
        cluster_name=header.cluster_name,
        broker_name=header.broker_name,
        next_broker_id=1 if found is None else found.next_broker_id,
    )
    return ControllerDecision(header=answer)


def apply_broker_id(now: Situation, header: ApplyBrokerIdHeader) -> ControllerDecision:
    """1013. Apache's controller grants any free id; ours grants only the next one, so every id up to it was granted."""
    name, broker_id, check_code = header.broker_name, header.applied_broker_id, header.register_check_code
    asked = BrokerSetAnswer(cluster_name=header.cluster_name, broker_name=name)
    found = now.sets.get(name)
    if found is None and broker_id != 1:
        return ControllerDecision(
            ResponseCode.CONTROLLER_BROKER_ID_INVALID,
            f"Broker-set: {name} hasn't been registered in controller, but broker try to apply brokerId: {broker_id}",
            asked,
        )
    if found is not None and broker_id in found.replicas:
        if found.replicas[broker_id].register_check_code == check_code:  # the first answer was lost
            return ControllerDecision(header=asked)
    elif found is None or broker_id == found.next_broker_id:
        refusal = _cannot_keep(now, found, header.cluster_name, name, check_code)
        if refusal is not None:
            return ControllerDecision(ResponseCode.CONTROLLER_INVALID_REQUEST, refusal, asked)
        address = check_code.partition(";")[0]
        event = BrokerIdApplied(header.cluster_name, name, address, broker_id, check_code)
        return ControllerDecision(header=asked, events=(event,))
    remark = f"Fail to apply brokerId: {broker_id} in broker-set: {name}"
    return ControllerDecision(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, asked)


def _cannot_keep(now: Situation, found: BrokerSet | None, *texts: str) -> str | None:
    if not all(0 < len(text) <= TEXT_CHARS_MAX for text in texts):
        return f"names and the check code need 1 to {TEXT_CHARS_MAX} characters"
    if found is None and len(now.sets) >= SETS_MAX:
        return f"this controller knows {SETS_MAX} broker names, and takes no more"
    if found is not None and len(found.replicas) >= REPLICAS_MAX:
        return f"this broker name has {REPLICAS_MAX} replicas, and takes no more"
    return None


def register_broker(now: Situation, header: RegisterToControllerHeader) -> ControllerDecision:
    """1003: a replica has started. If it is the master, its log may have lost its end since its last run, so its term
    is over. Apache's controller lets it go on in that term."""
    name, broker_id = header.broker_name, header.broker_id
    found = now.sets.get(name)
    if found is None or broker_id not in found.replicas:
        what = "Broker-set: {0} hasn't been registered in controller"
        if found is not None:
            what = "BrokerId: {1} hasn't been registered in broker-set: {0}"
        return ControllerDecision(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            what.format(name, broker_id),
            BrokerSetAnswer(cluster_name=header.cluster_name, broker_name=name),
        )
    events: list[ControllerEvent] = []
    if found.replicas[broker_id].broker_address != header.broker_address:
        if not 0 < len(header.broker_address) <= TEXT_CHARS_MAX:
            remark = f"brokerAddress: 1 to {TEXT_CHARS_MAX} characters are needed"
            return ControllerDecision(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)
        events.append(BrokerAddressUpdated(name, broker_id, header.broker_address))
    if found.master_broker_id == broker_id:
        others = {key: standing for key, standing in now.alive.items() if key != (name, broker_id)}
        events += master_lost(now._replace(alive=others), found)
    after = apply_all(now.sets, events)[name]
    answer = RegisterToControllerAnswer(cluster_name=header.cluster_name, broker_name=name)
    if now.has_living_master(after):
        answer.master_broker_id, answer.master_address = after.master_broker_id, after.master_address
        answer.master_epoch, answer.sync_state_set_epoch = after.master_epoch, after.sync_state_set_epoch
    return ControllerDecision(header=answer, body=set_body(after), events=tuple(events))


def clean_broker_data(now: Situation, header: CleanBrokerDataHeader) -> ControllerDecision:
    """1011. Never forgets a living replica, since it could not register again. ``is_clean_living_broker`` only means
    that all replicas may be forgotten although the set has a master, which must be dead."""
    name = header.broker_name
    try:
        text = (header.broker_controller_ids_to_clean or "").strip()
        ids = tuple(int64(part.strip()) for part in text.split(";") if part.strip()) if text else None  # None: all
    except ValueError as error:
        return _not_cleaned(
            "Please set the option <brokerControllerIdsToClean> according to the format, "
            f"exception: {NUMBER_FORMAT_EXCEPTION}: {error}"
        )
    found = now.sets.get(name)
    if found is None:
        return _not_cleaned(f"Broker {name} is not existed,clean broker data failure.")
    if not now.is_settled:
        return _not_cleaned(STARTED_LATELY)
    if ids is None:
        is_led = found.master_broker_id is not None and not header.is_clean_living_broker
        if is_led or any(now.is_alive(found, broker_id) for broker_id in found.replicas):
            return _not_cleaned(f"Broker {name} is still alive, clean up failure")
        return ControllerDecision(events=(BrokerDataCleaned(name, None),))
    for broker_id in ids:
        if now.is_alive(found, broker_id):
            return _not_cleaned(f"Broker [{name},  {broker_id}] is still alive, clean up failure")
    known = tuple(broker_id for broker_id in ids if broker_id in found.replicas)
    if not known:
        return _not_cleaned(f"Broker {name} has none of these ids,clean broker data failure.")
    return ControllerDecision(events=(BrokerDataCleaned(name, known),))


def _not_cleaned(remark: str) -> ControllerDecision:
    return ControllerDecision(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark)
