"""The name servers' key-value table: makes the same change on each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core.changes import FieldChange, FreeTextChange, Step
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.names import ORDER_TOPIC_NAMESPACE

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


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
    action = "create" if before is None else "change" if before != value else "keep"

    def put(addr: str) -> Callable[[], None]:
        return partial(admin.put_kv, addr, namespace, key, value)

    return _steps(admin, action, namespace, key, before, value, put)


def delete_steps(admin: AdminClient, namespace: str, key: str) -> list[Step]:
    before = read_value(admin, namespace, key)

    def delete(addr: str) -> Callable[[], None]:
        return partial(admin.delete_kv, addr, namespace, key)

    return _steps(admin, "keep" if before is None else "delete", namespace, key, before, None, delete)


def _steps(
    admin: AdminClient,
    action: str,
    namespace: str,
    key: str,
    before: str | None,
    after: str | None,
    act_on: Callable[[str], Callable[[], None]],
) -> list[Step]:
    kind = FieldChange if namespace == ORDER_TOPIC_NAMESPACE else FreeTextChange
    changes = [] if before == after else [kind(key, before, after)]

    def undo(addr: str) -> list[list[str]]:
        where = ["-n", addr, "-s", namespace, "-k", key]
        return [["deleteKvConfig", *where] if before is None else ["updateKvConfig", *where, "-v", before]]

    return [Step(addr, action, changes, act_on(addr), undo(addr)) for addr in admin.namesrv_addrs]
