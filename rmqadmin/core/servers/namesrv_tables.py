"""What name servers keep beside routes: key-value tables, and whether brokers may be written to."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import KEEP, FieldChange, FreeTextChange, Step, Taken, take
from rmqadmin.core.results import FoundRows, Row, doc, some_failed
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.names import ORDER_TOPIC_NAMESPACE


def read_value(admin: AdminClient, namespace: str, key: str) -> str | None:
    """The value; None if there is no such key."""
    try:
        return admin.kv_value(namespace, key)
    except RefusedError as error:
        if error.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        return None


def put_steps(admin: AdminClient, namespace: str, key: str, value: str) -> list[Step]:
    """One step per name server. All are told, even if the one that was asked has the value already."""
    before = read_value(admin, namespace, key)
    what = "create" if before is None else "change" if before != value else KEEP
    return _steps(admin, what, namespace, key, before, value, lambda addr: admin.put_kv(addr, namespace, key, value))


def delete_steps(admin: AdminClient, namespace: str, key: str) -> list[Step]:
    before = read_value(admin, namespace, key)
    what = KEEP if before is None else "delete"
    return _steps(admin, what, namespace, key, before, None, lambda addr: admin.delete_kv(addr, namespace, key))


def _steps(
    admin: AdminClient,
    action: str,
    namespace: str,
    key: str,
    before: str | None,
    after: str | None,
    act: Callable[[str], None],
) -> list[Step]:
    kind = FieldChange if namespace == ORDER_TOPIC_NAMESPACE else FreeTextChange
    changes = [] if before == after else [kind(key, before, after)]

    def undo(addr: str) -> list[list[str]]:
        where = ["-n", addr, "-s", namespace, "-k", key]
        return [["deleteKvConfig", *where] if before is None else ["updateKvConfig", *where, "-v", before]]

    return [Step(addr, action, changes, partial(act, addr), undo(addr)) for addr in admin.namesrv_addrs]


class WritePermRow(Row, frozen=True):
    namesrv_addr: Annotated[str, doc("the name server", key=True)]
    broker_name: Annotated[str, doc("broker name")]
    action: Annotated[str, doc("wipe or add")]
    topic_count: Annotated[int | None, doc("topics of the broker that it found; under --dry-run, that the broker has")]
    done: Annotated[bool, doc("false under --dry-run, and where it failed", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


_OPPOSITE = {"wipe": "addWritePerm", "add": "wipeWritePerm"}


class WritePerms(FoundRows[WritePermRow], frozen=True):
    """What each name server did. ``may_be_done``: those that did it or may have done it, by address."""

    may_be_done: list[str] = []

    def mqadmin_text(self) -> str | None:
        if not any(row.done or row.error for row in self.found):
            return None
        return "".join(
            f"{row.action} write perm of broker[{row.broker_name}] in name server[{row.namesrv_addr}] "
            + (f"OK, {row.topic_count}\n" if row.done else "Failed\n")
            for row in self.found
        )

    def remark(self) -> str | None:
        """The command that undoes the change, if some name servers made it and others did not."""
        back = self.way_back()
        return None if back is None or self.problem() is None else f"to undo what was done: {back}"

    def way_back(self) -> str | None:
        """The command that undoes the change where it was made, or may have been; None if it was made nowhere."""
        is_all = len(self.may_be_done) == len(self.found)
        commands = [
            f"rmqadmin {_OPPOSITE[row.action]} "
            + ("" if is_all else f"-n {row.namesrv_addr} ")
            + f"-b {shlex.quote(row.broker_name)}"
            for row in self.found
            if row.namesrv_addr in self.may_be_done
        ]
        return "; ".join(dict.fromkeys(commands)) or None

    def problem(self) -> str | None:
        return some_failed([row.error for row in self.found], "name server")


def require_broker(admin: AdminClient, name: str) -> None:
    """NotFoundError for a broker that is in no cluster. mqadmin has no such error: it finds 0 topics for the broker."""
    names = admin.cluster_info().broker_addr_table
    if name not in names:
        raise targets.not_there("broker", name, names)


def change_write_perm(
    admin: AdminClient, name: str, *, may_write: bool, dry_run: bool, only: Sequence[str] | None = None
) -> WritePerms:
    """Takes a broker's write permission away on all name servers of the client, or on ``only`` these, or gives it back.
    If one fails, the others are still told. After Ctrl-C the rows say which were told."""
    topic_count = None
    if dry_run:  # how many topics it registers
        broker = admin.cluster_info().broker_addr_table.get(name)
        addr = None if broker is None else broker.selected_addr()
        topics = None if addr is None else targets.or_none(lambda: admin.all_topics(addr))
        topic_count = None if topics is None else len(topics.topic_config_table)
    act = admin.add_write_perm if may_write else admin.wipe_write_perm
    counts: dict[str, int | None] = dict.fromkeys(admin.namesrv_addrs if only is None else only, topic_count)

    def tell(addr: str) -> None:
        counts[addr] = act(addr, name)

    what = "add" if may_write else "wipe"
    steps = [Step(addr, what, [], partial(tell, addr)) for addr in counts]
    taken = Taken([None for _ in steps]) if dry_run else take(steps)
    rows = [
        WritePermRow(
            namesrv_addr=step.target,
            broker_name=name,
            action=what,
            topic_count=counts[step.target],
            done=not dry_run and error is None,
            error=None if error is None else str(error),
        )
        for step, error in zip(steps, taken.errors, strict=True)
    ]
    return WritePerms(rows, [step.target for step in taken.may_be_done(steps)] if not dry_run else [])
