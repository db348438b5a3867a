"""Options that several commands about users and ACL share, in mqadmin's spelling."""

from typing import Annotated

import typer

from rmqadmin.cli.options.command_options import A_BROKER, OF_CONTEXT, OR_THE_ONLY
from rmqadmin.cli.options.value_markers import Value
from rmqproto.access.resources import PolicyDecision
from rmqproto.access.users import UserType

EveryReplica = Annotated[
    str | None,
    OF_CONTEXT,
    OR_THE_ONLY,
    Value.CLUSTER,
    typer.Option("-c", "--clusterName", help="Every master and slave of this cluster; default: the only one."),
]
Username = Annotated[str, Value.USER, typer.Option("-u", "--username", help="Name of the user.")]
UserKind = Annotated[
    UserType | None,
    typer.Option("-t", "--userType", case_sensitive=False, help="Super users may do everything. New: Normal."),
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="The password is the first line of standard input.")
]
Subject = Annotated[str, Value.SUBJECT, typer.Option("-s", "--subject", help="Whose ACL.")]
Resources = Annotated[
    str,
    Value.NAME,
    typer.Option(
        "-r", "--resources", metavar="TYPE:NAME,...", help="Cluster:, Topic:, Group: or Namespace: and a name or name*."
    ),
]
Actions = Annotated[
    str,
    Value.NAME,
    typer.Option("-a", "--actions", metavar="NAME,...", help="All, Pub, Sub, Create, Update, Delete, Get, List."),
]
Verdict = Annotated[
    PolicyDecision, typer.Option("-d", "--decision", case_sensitive=False, help="Whether the actions are allowed.")
]
SourceIps = Annotated[
    str | None,
    Value.NAME,
    typer.Option("-i", "--sourceIp", metavar="IP,...", help="From these addresses or networks only."),
]
FromBroker = Annotated[
    str, A_BROKER, Value.BROKER_ADDR, typer.Option("-f", "--fromBroker", help="The broker that has them.")
]
ToBroker = Annotated[
    str, A_BROKER, Value.BROKER_ADDR, typer.Option("-t", "--toBroker", help="The broker that gets them.")
]
UserName = Annotated[str, Value.USER, typer.Argument(help="Name of the user.")]
WhatActions = Annotated[
    str, Value.ACTION, typer.Argument(help="Pub, Sub, Create, Update, Delete, Get, List or All; several: Pub,Sub.")
]
WhatResource = Annotated[
    str, Value.RESOURCE, typer.Argument(help="Topic:, Group: or Cluster: and a name; name* is a prefix.")
]
IsSuper = Annotated[bool, typer.Option("--super", help="Make it a super user, which may do everything.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do not fail if there is nothing to remove.")]
IfNoUser = Annotated[bool, typer.Option("--if-not-exists", help="Keep a user that exists, with its password.")]
