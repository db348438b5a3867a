"""Makes ``docs/compatibility-requests.md``: every request code of Apache RocketMQ 5.5.0 and what we do with it, from
the dispatch tables and the known differences of the golden plays. ``python -m tests.docs.compatibility`` writes it.

The codes and their names come from recorded exchanges with a real 5.5.0.
"""

import dataclasses
import tempfile
from pathlib import Path
from textwrap import fill

from rmqproto.codes import RequestCode
from rmqserver.auth.auth_settings import AUTH_KEYS, OWN_KEYS
from rmqserver.broker.broker import Broker
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.config.keyed_settings import Settings
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.controller.controller import Controller
from rmqserver.controller.event_log import EventLog
from rmqserver.controller.live_brokers import LostConnections
from rmqserver.doors.remoting.broker_door import BrokerDoor
from rmqserver.namesrv.kv import KvConfig
from rmqserver.namesrv.nameserver import Nameserver
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.notices import Notices
from rmqserver.store.disk.disk import OsDisk
from tests.docs.differences import NOT_PLAYED, RECORDED
from tests.support.golden import codes

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "compatibility-requests.md"

PAGE_WIDTH = 118

SERVERS = (BrokerConfig, NamesrvConfig, ControllerConfig)

TO_CLIENTS = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    RequestCode.NOTIFY_UNSUBSCRIBE_LITE,
}
"""Codes that the broker sends to clients. 307 and 309 go both ways: a tool asks the broker, and the broker its
client."""

TO_BROKERS: dict[int, str] = {
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: "controller",
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: "nameserver",
}
"""Codes that are sent to brokers, and the sender."""

NEVER_SERVED_BY_APACHE = {13, 22, 23, 27, 47, 209, 210, 211, 212, 213, 214, 301, 302, 9999, 200072}
"""Codes without a handler in 5.5.0, which answers 3 as we do."""

UNSERVED = (
    ("a process is one broker, not a container of several", {902, 903}),
    ("static topics are not served", {513}),
)
"""Codes that are not served, and why."""

HEAD = """\
# Compatibility: requests

`python -m tests.docs.compatibility` makes this page from the dispatch tables, and a test keeps it current. The codes
and names are those of Apache RocketMQ 5.5.0.

A request that is not served is answered as Apache answers an unknown one: 3, ` request type N not supported`."""

DIFFERENCES = """
## Recorded exchanges that are answered in another way

`make test` plays exchanges recorded with Apache's servers against ours.

| exchange | ours | why |
|---|---|---|"""

LEFT_OUT = """
## Recorded exchanges that are not played

Exchanges of requests that are not served are not played, either.

| exchange | why |
|---|---|"""


def dispatch_tables() -> tuple[set[int], set[int], set[int]]:
    """The codes that broker, nameserver and controller serve."""
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop()
        try:
            config = BrokerConfig()
            config.load({"storePathRootDir": folder})
            broker = BrokerDoor(Broker(config, loop))
            namesrv = Nameserver(NamesrvConfig(), KvConfig(None))
            event_log = EventLog(folder, OsDisk())
            notices, connections = Notices(loop), LostConnections()
            controller = Controller(ControllerConfig(), event_log, notices, connections, lambda host: host)
            return set(broker.handlers), set(namesrv.handlers), set(controller.handlers)
        finally:
            loop.close()


def what_we_do(code: int, broker: set[int], namesrv: set[int], controller: set[int]) -> str:
    tables = (("broker", broker), ("nameserver", namesrv), ("controller", controller))
    served_by = [name for name, table in tables if code in table]
    if code in TO_BROKERS:
        served = ", and served by them" if code in broker else ""
        return f"sent to brokers by the {TO_BROKERS[code]}{served}"
    if code in TO_CLIENTS:
        return "sent to clients by the broker"
    family = next((name for name, members in UNSERVED if code in members), None)
    if family is not None:
        return f"answered 3: {family}"
    if served_by:
        return "served by the " + " and the ".join(served_by)
    if code in NEVER_SERVED_BY_APACHE:
        return "answered 3, as Apache does"
    raise LookupError(f"code {code} is neither served nor in a family: say what it belongs to")


def idle_keys() -> list[str]:
    """Apache's settings without an effect here."""
    apaches = {kind: {key for key in kind().kinds if not kind().is_own(key)} for kind in SERVERS}
    return sorted({key for kind in SERVERS for key in apaches[kind] - acted_on(kind)})


def acted_on(kind: type[Settings]) -> set[str]:
    """Apache's settings that have an effect here, including those that act before the broker is made."""
    known = kind()
    keys = {field.metadata["key"] for field in dataclasses.fields(kind)} | (AUTH_KEYS & known.kinds.keys())
    return {key for key in keys if not known.is_own(key)}


def acted_on_by_any() -> set[str]:
    return set().union(*map(acted_on, SERVERS))


def own_keys() -> list[str]:
    """Settings that only our servers have. This leaves out Apache's auth settings, which our controllers have too."""
    return sorted({key for kind in SERVERS for key in kind().kinds if kind().is_own(key)} - (AUTH_KEYS - OWN_KEYS))


def whole_words(requests: list[str]) -> str:
    """Lines of the page in which a code and its name stand together."""
    return fill(", ".join(request.replace(" ", "\xa0") for request in requests), PAGE_WIDTH).replace("\xa0", " ")


def page() -> str:
    tables = dispatch_tables()
    names = codes()
    elsewhere = {RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET}
    """Codes whose exchanges are recorded in other files."""
    assert set().union(*tables) <= names.keys() | elsewhere
    names.update({int(code): code.name for code in elsewhere})
    answers: dict[str, list[str]] = {}
    for code in sorted(names):
        answers.setdefault(what_we_do(code, *tables), []).append(f"{code} {names[code]}")
    lines = [f"\n## {what[0].upper()}{what[1:]}\n\n{whole_words(which)}." for what, which in answers.items()]
    shown = {name: item for name, item in RECORDED.items() if not item.ours.startswith("as ")}
    rows = [f"| {name} | {item.ours} | {item.reason} |" for name, item in shown.items()]
    left_out = [f"| {name} | {reason} |" for name, reason in NOT_PLAYED.items()]
    return "\n".join([HEAD, *lines, DIFFERENCES, *rows, LEFT_OUT, *left_out, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
