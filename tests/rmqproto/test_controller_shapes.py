"""Headers and bodies between brokers, controllers and ``mqadmin``, as a real 5.5.0 sent them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import Body
from rmqproto.bodies.replication import (
    ElectedMaster,
    EpochCache,
    EpochEntry,
    ReplicaIdentity,
    ReplicaSet,
    ReplicaSets,
    SyncStateSet,
)
from rmqproto.bodies.routes import BrokerMemberGroup
from rmqproto.codes import RequestCode as R
from rmqproto.headers import controller
from rmqproto.headers.base import Header, from_ext, to_ext
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire import fastjson
from tests.support.controller_scenes import ControllerExchange, controller_exchanges

ANSWER_HEADERS: dict[int, type[Header]] = {
    R.CONTROLLER_ALTER_SYNC_STATE_SET: controller.AlterSyncStateSetAnswer,
    R.CONTROLLER_ELECT_MASTER: controller.ElectMasterAnswer,
    R.CONTROLLER_REGISTER_BROKER: controller.RegisterToControllerAnswer,
    R.CONTROLLER_GET_REPLICA_INFO: controller.ReplicaInfoAnswer,
    R.CONTROLLER_GET_METADATA_INFO: controller.ControllerMetaAnswer,
    R.CONTROLLER_GET_NEXT_BROKER_ID: controller.NextBrokerIdAnswer,
    R.CONTROLLER_APPLY_BROKER_ID: controller.BrokerSetAnswer,
}
REQUEST_BODIES: dict[int, Any] = {
    R.CONTROLLER_ALTER_SYNC_STATE_SET: SyncStateSet,
    R.CONTROLLER_GET_SYNC_STATE_DATA: list[str],
    R.NOTIFY_BROKER_ROLE_CHANGED: SyncStateSet,
}
ANSWER_BODIES: dict[int, type[Body]] = {
    R.CONTROLLER_ALTER_SYNC_STATE_SET: SyncStateSet,
    R.CONTROLLER_ELECT_MASTER: ElectedMaster,
    R.CONTROLLER_REGISTER_BROKER: SyncStateSet,
    R.CONTROLLER_GET_REPLICA_INFO: SyncStateSet,
    R.CONTROLLER_GET_SYNC_STATE_DATA: ReplicaSets,
    R.GET_BROKER_EPOCH_CACHE: EpochCache,
}


def members(body: bytes, type: Any) -> Any:
    """The members of a body that our type keeps, to compare with the whole body. Bodies written by the recording
    program have blanks and another order of members."""
    return fastjson.parse_untrusted(fastjson.dumps(fastjson.loads_untrusted(body, type)))


@pytest.mark.parametrize("code", sorted({exchange.request.code for exchange in controller_exchanges()}))
def test_nothing_that_was_said_is_lost(code: int) -> None:
    """Ext fields and bodies of requests and answers come out as they went in."""
    for exchange in (each for each in controller_exchanges() if each.request.code == code):
        check_request(exchange)
        check_answer(exchange)


def check_request(exchange: ControllerExchange) -> None:
    request = exchange.request
    if request.code in REQUEST_HEADERS:
        ext = to_ext(from_ext(request.ext, REQUEST_HEADERS[request.code]))
        assert ext == request.ext, exchange.name
    if request.code in REQUEST_BODIES:
        kept = members(request.body, REQUEST_BODIES[request.code])
        assert kept == fastjson.parse_untrusted(request.body), exchange.name
    elif request.code != R.UPDATE_CONTROLLER_CONFIG:
        assert not request.body, exchange.name


def check_answer(exchange: ControllerExchange) -> None:
    answer = exchange.answer
    if answer is None:
        return
    if answer.ext:
        assert to_ext(from_ext(answer.ext, ANSWER_HEADERS[exchange.request.code])) == answer.ext, exchange.name
    if answer.body and exchange.request.code != R.GET_CONTROLLER_CONFIG:
        found = fastjson.loads_untrusted(answer.body, ANSWER_BODIES[exchange.request.code])
        assert fastjson.parse_untrusted(fastjson.dumps(found)) == fastjson.parse_untrusted(answer.body), exchange.name


def test_apaches_own_bodies_come_out_byte_for_byte() -> None:
    """The bodies that brokers and controllers wrote: members in Java's order, and integer keys without quotes."""
    checked = 0
    for exchange in controller_exchanges():
        for command, types in ((exchange.request, REQUEST_BODIES), (exchange.answer, ANSWER_BODIES)):
            is_of_the_maker = exchange.sender == "client" and command is exchange.request
            if command is None or not command.body or is_of_the_maker or exchange.request.code not in types:
                continue
            found = fastjson.loads_untrusted(command.body, types[exchange.request.code])
            assert fastjson.dumps(found) == command.body, exchange.name
            checked += 1
    assert checked > 80


# --- not recorded ----------------------------------------------------------------------------------------------------

INTS = {"Int32": st.integers(-(1 << 31), (1 << 31) - 1), "Int64": st.integers(-(1 << 63), (1 << 63) - 1)}
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1)
IDS = st.integers(1, (1 << 63) - 1)
SHAPES: list[type[Header]] = sorted(
    {
        BrokerHeartbeatHeader,
        *(each for each in vars(controller).values() if isinstance(each, type) and issubclass(each, Header)),
    }
    - {Header},
    key=str,
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values for a header field of that type."""
    parts = getattr(kind, "__args__", ())
    if type(None) in parts:
        return st.none() | values(parts[0])
    if kind is bool:
        return st.booleans()
    if kind is str:
        return TEXT
    bounds = kind.__metadata__[0]
    return st.integers(bounds.ge, bounds.le)


@given(shape=st.sampled_from(SHAPES), data=st.data())
def test_headers_come_out_as_they_went_in(shape: type[Header], data: st.DataObject) -> None:
    fields = {field.name: data.draw(values(field.type)) for field in msgspec.structs.fields(shape)}
    header = shape(**fields)
    assert from_ext(to_ext(header), shape) == header


IDENTITIES = st.builds(ReplicaIdentity, alive=st.booleans(), broker_address=TEXT, broker_id=IDS, broker_name=TEXT)
EPOCHS = st.builds(EpochEntry, end_offset=INTS["Int64"], epoch=INTS["Int32"], start_offset=INTS["Int64"])
REPLICA_SETS = st.builds(
    ReplicaSet,
    in_sync_replicas=st.lists(IDENTITIES, max_size=3),
    master_address=st.none() | TEXT,
    master_broker_id=st.none() | IDS,
    master_epoch=INTS["Int32"],
    not_in_sync_replicas=st.lists(IDENTITIES, max_size=3),
    sync_state_set_epoch=INTS["Int32"],
)
GROUPS = st.builds(
    BrokerMemberGroup, broker_addrs=st.dictionaries(IDS, TEXT, max_size=3), broker_name=TEXT, cluster=TEXT
)
BODIES = st.one_of(
    st.builds(SyncStateSet, sync_state_set=st.lists(IDS), sync_state_set_epoch=INTS["Int32"]),
    st.builds(ElectedMaster, broker_member_group=st.none() | GROUPS, sync_state_set=st.lists(IDS)),
    st.builds(ReplicaSets, replicas_info_table=st.dictionaries(TEXT, REPLICA_SETS, max_size=3)),
    st.builds(EpochCache, broker_id=IDS, broker_name=TEXT, cluster_name=TEXT, epoch_list=st.lists(EPOCHS)),
)


@given(body=BODIES, standard=st.booleans())
def test_bodies_come_out_as_they_went_in(body: Body, standard: bool) -> None:
    """Both with unquoted integer keys as Apache writes them, and with quoted ones as we do."""
    assert fastjson.loads_untrusted(fastjson.dumps(body, standard=standard), type(body)) == body
