"""What authentication and authorization cost: signed and checked sends and pulls, compared with unsigned ones, on two
brokers in turns. The frames only differ by the signature. All requests are equal because ``load.c`` does not sign, so a
broker that caches valid signatures would have it too easy. Ours caches none (``rmqserver/auth/gate_shortcut.py``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker, Load, put_all
from bench.harness.rows import PRODUCER_GROUP, SMALL, Row
from bench.harness.servers import ours
from bench.harness.table import alone, settle
from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode
from rmqproto.headers.base import Header, to_ext
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign

ROOT_USER, USER = Credentials("root", "root-secret"), Credentials("orders", "orders-secret")
GROUP = "CID_guarded"
CLIENTS = 64
RATIO = 0.85
SETTINGS = (
    "authenticationEnabled=true",
    "authorizationEnabled=true",
    "initAuthenticationUser=" + json.dumps({"username": ROOT_USER.access_key, "password": ROOT_USER.secret_key}),
)


def take(load: Load, extent: Extent) -> list[Figure]:
    with ours() as plain, guarded() as guarding:
        brokers = {None: plain, USER: guarding}
        for user, broker in brokers.items():
            put_all(broker, [send(user)] * CLIENTS)
            settle(broker)
        return [figure(load, extent, name, frame, brokers) for name, frame in (("send", send), ("pull", pull))]


def figure(
    load: Load,
    extent: Extent,
    name: str,
    frame: Callable[[Credentials | None], bytes],
    brokers: Mapping[Credentials | None, Broker],
) -> Figure:
    """Compares the best round of each broker, because other load on the machine disturbs it least."""
    row = f"{name} {CLIENTS} x 1"
    runs: dict[Credentials | None, list[dict[str, Any]]] = {user: [] for user in brokers}
    for number in range(extent.rounds):
        for user in brokers if number % 2 == 0 else reversed([*brokers]):
            with alone(brokers[user], [*brokers.values()]):
                runs[user].append(load.run(brokers[user], Row(row, CLIENTS, 1, frame(user)), extent.seconds))
    best = {user: max(run["per_s"] for run in each) for user, each in runs.items()}
    errors = sum(run["errors"] for each in runs.values() for run in each)
    return Figure(
        f"{row}, signed and judged", "/s", best[USER], best[None], "without", ratio_at_least=RATIO, errors=errors
    )


@contextmanager
def guarded() -> Iterator[Broker]:
    """Our broker with both enabled, a user who may do everything that the frames need, and some other policies."""
    with ours(settings=SETTINGS, name="guarded") as broker, AdminClient(broker.namesrv_addr, ROOT_USER) as admin:
        admin.create_topic(broker.address, TopicConfig(topic_name=SMALL, read_queue_nums=4, write_queue_nums=4))
        admin.create_user(
            broker.address, UserAccount(username=USER.access_key, password=USER.secret_key, user_type="Normal")
        )
        entries = [
            AclEntry(resource=resource, actions=["Pub", "Sub"], decision="Allow", source_ips=["127.0.0.0/8"])
            for resource in (f"Topic:{SMALL}", f"Group:{GROUP}", *(f"Topic:other{number}" for number in range(20)))
        ]
        subject = f"User:{USER.access_key}"
        admin.create_acl(broker.address, AclInfo(subject=subject, policies=[AclPolicy(entries=entries)]))
        yield broker


def send(user: Credentials | None) -> bytes:
    """A send to one queue of one topic. It is always the same, with nothing for ``load.c`` to count up."""
    header = SendHeaderV2(
        producer_group=PRODUCER_GROUP,
        topic=SMALL,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=0,
        born_timestamp=1_700_000_000_001,
        properties="UNIQ_KEY\x017F0000010A2B18B4AAC2012345670089\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, b"x" * 128, user)


def pull(user: Credentials | None) -> bytes:
    """A pull of one message from the beginning of that queue."""
    header = PullHeader(
        consumer_group=GROUP, topic=SMALL, queue_id=1, queue_offset=0, max_msg_nums=1, sys_flag=PULL_SUBSCRIPTION,
        subscription="*", expression_type="TAG",
    )  # fmt: skip
    return request(RequestCode.PULL_MESSAGE, header, b"", user)


def request(code: int, header: Header, body: bytes, user: Credentials | None) -> bytes:
    ext = to_ext(header)
    if user is not None:
        sign(ext, body, user)
    return encode_frame(Command(code=code, opaque=1, ext=ext, body=body))
