"""Options that several commands about controllers share, in mqadmin's spelling."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.options.command_options import A_BROKER_NAME, OF_CONTEXT, OR_THE_ONLY
from rmqadmin.cli.options.value_markers import Value

ControllerAddr = Annotated[
    str,
    Value.ADDRESSES,
    typer.Option(
        "-a",
        "--controllerAddress",
        metavar="HOST:PORT[;...]",
        help="Any controller of the group; of several, the first that knows the leader.",
    ),
]
ControllerAddrs = Annotated[
    str, Value.ADDRESSES, typer.Option("-a", "--controllerAddress", metavar="HOST:PORT[;...]", help="The controllers.")
]
ReplicatedBroker = Annotated[
    str, A_BROKER_NAME, Value.BROKER_NAME, typer.Option("-bn", "--brokerName", metavar="BROKER", help="Broker name.")
]
OneBrokerName = Annotated[
    str | None,
    A_BROKER_NAME,
    Value.BROKER_NAME,
    typer.Option("-b", "--brokerName", metavar="BROKER", help="The replicas of this broker name only."),
]
EveryBrokerName = Annotated[
    str | None,
    OF_CONTEXT,
    OR_THE_ONLY,
    Value.CLUSTER,
    typer.Option(
        "-c", "--clusterName", metavar="CLUSTER", help="Every broker name of this cluster; default: the only one."
    ),
]
