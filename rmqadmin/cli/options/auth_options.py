"""Options that several commands about users and ACL share, in mqadmin's spelling."""

from typing import Annotated

from rmqadmin.cli.options.command_options import A_BROKER
from rmqadmin.cli.options.common_options import OptionGroup, Value, argument, option
from rmqproto.access.resources import PolicyDecision
from rmqproto.access.users import UserType

Username = Annotated[str, Value.USER, option("-u", "--username", "Name of the user.")]
UserKind = Annotated[UserType | None, option("-t", "--userType", "Super users may do everything. New: Normal.")]
PasswordStdin = Annotated[bool, option("--password-stdin", "The password is the first line of standard input.")]
Subject = Annotated[str, Value.SUBJECT, option("-s", "--subject", "Whose ACL.")]
FromBroker = Annotated[str, A_BROKER, Value.BROKER_ADDR, option("-f", "--fromBroker", "The broker that has them.")]
ToBroker = Annotated[str, A_BROKER, Value.BROKER_ADDR, option("-t", "--toBroker", "The broker that gets them.")]
UserName = Annotated[str, Value.USER, argument("Name of the user.")]
WhatActions = Annotated[
    str, Value.ACTION, argument("Pub, Sub, Create, Update, Delete, Get, List or All; several: Pub,Sub.")
]
WhatResource = Annotated[str, Value.RESOURCE, argument("Topic:, Group: or Cluster: and a name; name* is a prefix.")]
IsSuper = Annotated[bool, option("--super", "Make it a super user, which may do everything.")]
IfExists = Annotated[bool, option("--if-exists", "Do not fail if there is nothing to remove.")]
IfNoUser = Annotated[bool, option("--if-not-exists", "Keep a user that exists, with its password.")]


class EntryOptions(OptionGroup, frozen=True):
    """Entries of one user's ACL, one for each resource."""

    subject: Subject
    resources: Annotated[
        str,
        Value.NAME,
        option(
            "-r", "--resources", "Cluster:, Topic:, Group: or Namespace: and a name or name*.", metavar="TYPE:NAME,..."
        ),
    ]
    actions: Annotated[
        str,
        Value.NAME,
        option("-a", "--actions", "All, Pub, Sub, Create, Update, Delete, Get, List.", metavar="NAME,..."),
    ]
    decision: Annotated[PolicyDecision, option("-d", "--decision", "Whether the actions are allowed.")]
    source_ip: Annotated[
        str | None, Value.NAME, option("-i", "--sourceIp", "From these addresses or networks only.", metavar="IP,...")
    ] = None
