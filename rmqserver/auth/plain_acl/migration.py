"""Turns accounts of ACL 1.0 into users and policies (``AuthMigrator``, 5.5.0) if ``migrateAuthFromV1Enabled`` is set:
at each start, those accounts that have no user yet. White addresses are dropped, as by Apache, and logged."""

from __future__ import annotations

import logging

from rmqproto.access.resources import ANY, Action, PolicyDecision, PolicyType, ResourceType
from rmqproto.access.users import SUBJECT_PREFIX, UserType
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqserver.auth.auth_table import AuthRefused, AuthTable
from rmqserver.auth.plain_acl.plain_files import Account, Perm, PlainFiles

log = logging.getLogger(__name__)


def migrate(home: str, table: AuthTable) -> None:
    """Raises UsageError, and migrates nothing, if the files cannot be used."""
    acl = PlainFiles(home).read()
    made = []
    for account in acl.accounts.values():
        if table.user(account.access_key) is not None:
            continue
        try:
            _migrate_account(account, table)
            made.append(account.access_key)
        except AuthRefused as error:
            log.error("event=account-not-migrated access_key=%s reason=%r", account.access_key, str(error))
        if account.white_addresses.is_any:
            log.warning(
                "event=white-address-not-migrated access_key=%s reason='requests from there must be signed now'",
                account.access_key,
            )
    if made:
        log.info("event=accounts-migrated users=%s", ",".join(made))
    if acl.global_white:
        log.warning(
            "event=white-address-not-migrated access_key=* reason='globalWhiteRemoteAddresses hold no longer: requests "
            "from there must be signed now'"
        )


def _migrate_account(account: Account, table: AuthTable) -> None:
    user_type = UserType.SUPER if account.is_admin else UserType.NORMAL
    table.create_user(UserAccount(username=account.access_key, password=account.secret_key, user_type=user_type.value))
    usual = (
        (ResourceType.TOPIC, account.default_topic_perm), (ResourceType.GROUP, account.default_group_perm),
    )  # fmt: skip
    policies = [
        AclPolicy(policy_type=policy_type.value, entries=entries)
        for policy_type, entries in (
            (PolicyType.CUSTOM, [_entry(resource.key, perm) for resource, perm in account.perms.items()]),
            (PolicyType.DEFAULT, [_entry(f"{kind.value}:{ANY}", perm) for kind, perm in usual if perm is not None]),
        )
        if entries
    ]  # fmt: skip
    if policies:
        subject = SUBJECT_PREFIX + account.access_key
        table.put_acl(subject, AclInfo(subject=subject, policies=policies))


def _entry(resource: str, perm: Perm) -> AclEntry:
    if perm is Perm.DENY:
        return AclEntry(resource=resource, actions=[Action.ALL.value], decision=PolicyDecision.DENY.value)
    actions = [action.value for each, action in ((Perm.PUB, Action.PUB), (Perm.SUB, Action.SUB)) if each & perm]
    return AclEntry(resource=resource, actions=actions, decision=PolicyDecision.ALLOW.value)
