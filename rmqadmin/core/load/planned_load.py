"""What a load would be, under ``--dry-run``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.core.load.load_plan import LanePlan
from rmqadmin.core.results import Result, Row, doc


class PlannedLoadRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("broker", key=True)]
    action: Annotated[str, doc("send or pull", key=True)]
    connections: Annotated[int, doc("connections to it")]
    queue_ids: Annotated[list[int], doc("queues that they use")]


class PlannedLoad(Result, frozen=True):
    """With --dry-run: what would be done on which broker."""

    row_type: ClassVar[type[Row]] = PlannedLoadRow
    found: list[PlannedLoadRow]
    said: str | None

    def rows(self) -> Sequence[PlannedLoadRow]:
        return self.found

    def remark(self) -> str | None:
        return self.said


def planned_load(lanes: Sequence[LanePlan]) -> PlannedLoad:
    by_broker: dict[tuple[str, str], list[LanePlan]] = {}
    for lane in lanes:
        host = f"[{lane.host}]" if ":" in lane.host else lane.host
        by_broker.setdefault((f"{host}:{lane.port}", "send" if lane.sends else "pull"), []).append(lane)
    rows = [
        PlannedLoadRow(
            broker_addr=addr,
            action=action,
            connections=len(of_broker),
            queue_ids=sorted({queue.queue_id for lane in of_broker for queue in lane.queues}),
        )
        for (addr, action), of_broker in sorted(by_broker.items())
    ]
    return PlannedLoad(rows, None)


def load_on_new_topic(topic: str, cluster: str) -> PlannedLoad:
    return PlannedLoad([], f"the topic {topic} would be made in {cluster}, and its queues used")
