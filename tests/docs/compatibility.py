"""Makes ``docs/compatibility.md``: every request code of Apache RocketMQ 5.5.0 and what we do with it, from the
dispatch tables and the known differences of the golden plays. ``python -m tests.docs.compatibility`` writes it, with
what is written in it alone: differences that no recorded exchange shows, and why settings have no effect.

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
from rmqserver.controller.role_notices import RoleNotices
from rmqserver.doors.remoting.broker_door import BrokerDoor
from rmqserver.namesrv.kv import KvConfig
from rmqserver.namesrv.nameserver import Nameserver
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.notices import Notices
from rmqserver.store.disk.disk import OsDisk
from tests.docs.differences import NOT_PLAYED, RECORDED
from tests.support.golden import codes

PAGE = Path(__file__).parent.parent.parent / "docs/compatibility.md"

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
    ("static topics are not served, see 513 below", {513}),
)
"""Codes that are not served, and why."""

HEAD = """\
# Compatibility

`python -m tests.docs.compatibility` makes this page from the dispatch tables, and a test keeps it current; differences
that no recorded exchange shows are written here. The standard is Apache RocketMQ 5.5.0: `make test` plays exchanges
recorded with a real one against ours, and `make interop` runs real clients and Apache's `mqadmin` against both.

A request that is not served is answered as Apache answers an unknown one: 3, ` request type N not supported`.

## Request codes

| code | name | ours |
|---|---|---|"""

DIFFERENCES = """
## Differences on purpose

| where | ours | why |
|---|---|---|"""

SETTINGS = """
## Settings

These settings of Apache's brokers, nameservers and controllers have their effect:

{with_effect}.

Only our servers have these settings; [security.md](security.md#limits-against-neighbours) and
[replication-handover.md](replication-handover.md#the-lease-of-a-master) describe them. At their defaults a server lists
them as comments, so that Apache's tools show only Apache's settings; `rmqadmin` always shows them:
{own}.

All others are known, checked, kept and shown, but have no effect. If one is set to another value than its default, the
server says so in its log (`event=settings-without-effect`). It refuses a value that asks for a feature that it lacks.

{without_effect}"""

WITHOUT_EFFECT = """\
| settings about | why they have no effect | which |
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
            notices, connections = RoleNotices(Notices(loop)), LostConnections()
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


def own_keys() -> list[str]:
    """Settings that only our servers have. This leaves out Apache's auth settings, which our controllers have too."""
    return sorted({key for kind in SERVERS for key in kind().kinds if kind().is_own(key)} - (AUTH_KEYS - OWN_KEYS))


def written(head: str) -> list[str]:
    """The rows that stand on the page below the head of a table."""
    return PAGE.read_text().partition(head)[2].partition("\n\n")[0].splitlines()[1:]


def page() -> str:
    broker, namesrv, controller = dispatch_tables()
    names = codes()
    elsewhere = {RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET}
    """Codes whose exchanges are recorded in other files."""
    assert broker | namesrv | controller <= names.keys() | elsewhere
    names.update({int(code): code.name for code in elsewhere})
    lines = [f"| {code} | {names[code]} | {what_we_do(code, broker, namesrv, controller)} |" for code in sorted(names)]
    recorded = {f"exchange {name}": item for name, item in RECORDED.items() if not item.ours.startswith("as ")}
    rows = [f"| {where} | {item.ours} | {item.reason} |" for where, item in recorded.items()]
    rows += [row for row in written(DIFFERENCES) if not row.startswith("| exchange ")]
    left_out = [f"| {name} | {reason} |" for name, reason in NOT_PLAYED.items()]
    with_effect = ", ".join(sorted(set().union(*map(acted_on, SERVERS))))
    about_settings = SETTINGS.format(
        with_effect=fill(with_effect, PAGE_WIDTH), own=", ".join(own_keys()),
        without_effect="\n".join([WITHOUT_EFFECT, *written(WITHOUT_EFFECT)]),
    )  # fmt: skip
    return "\n".join([HEAD, *lines, DIFFERENCES, *rows, about_settings, LEFT_OUT, *left_out, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
