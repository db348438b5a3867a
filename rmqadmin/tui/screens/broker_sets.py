"""Sets of brokers: the master, the slaves that could take over, how far slaves are behind, what is wrong, and each
handover as it happens."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rmqadmin.core.results import Shape
from rmqadmin.core.servers.ha_sets import in_sync_text
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import UNKNOWN, clock, duration, elapsed, size
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.map_screen import MapScreen
from rmqadmin.tui.sources import broker_sets
from rmqadmin.tui.sources.broker_sets import ReadSets, SetRow
from rmqadmin.tui.widgets.detail import finding_lines
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column
from rmqproto.wording import counted

SERVER_WAIT_MAX_S = 2.0
"""A broker that takes longer is shown as not answering. Waiting longer would hide a handover."""

FINDINGS_SHOWN_MAX = 4


def _role_mark(row: SetRow) -> Mark | None:
    if row.member.says_master:
        return Mark.GOOD if row.is_master else Mark.BAD
    return None


def _state_mark(row: SetRow) -> Mark | None:
    member = row.member
    if member.error is not None or (member.says_master and not row.is_master):
        return Mark.BAD
    if member.in_sync is False or (row.is_master and not member.says_master):
        return Mark.WARN
    return Mark.GOOD


def _lag_text(behind_bytes: int | None) -> str:
    if behind_bytes is None:
        return UNKNOWN
    return f"ahead {size(-behind_bytes)}" if behind_bytes < 0 else size(behind_bytes)


def _lease_text(left_ms: int | None) -> str:
    if left_ms is None:
        return UNKNOWN
    return duration(left_ms) if left_ms else "ended"


class BrokerSetsScreen(MapScreen):
    step = "Replicas"
    file_name = "replicas"

    def __init__(self, broker_name: str | None = None) -> None:
        """``broker_name``: only this set is shown."""
        super().__init__()
        self._broker_name = broker_name

    def map_columns(self) -> list[Column]:
        return [
            Column(name="broker_name", value=lambda row: row.of_set.broker_name, importance=VITAL),
            Column(name="broker_id", value=lambda row: row.member.broker_id, is_number=True, importance=VITAL),
            Column(name="cluster", value=lambda row: row.of_set.cluster, importance=MINOR),
            Column(name="broker_addr", value=lambda row: row.member.broker_addr, importance=MINOR),
            Column(name="role", mark=_role_mark, importance=VITAL),
            Column(name="epoch", is_number=True),
            Column(name="behind_bytes", words="behind", form=_lag_text, is_number=True, importance=VITAL),
            Column(name="behind_ms", words="for", form=duration, is_number=True),
            Column(
                name="log_end", words="log end", value=lambda row: row.member.log_end, is_number=True, importance=MINOR
            ),
            Column(name="lease", value=lambda row: row.member.lease_left_ms, form=_lease_text, is_number=True),
            Column(name="state", mark=_state_mark, shape=Shape.PROSE, readable_width=24, importance=VITAL),
        ]

    def move_columns(self) -> list[Column]:
        return [
            Column(name="at_ms", words="when", form=clock, importance=VITAL),
            Column(name="broker_name", is_name=True, importance=VITAL),
            Column(
                name="text", words="what has changed", shape=Shape.PROSE, mark=lambda change: change.mark,
                importance=VITAL,
            ),
        ]  # fmt: skip

    def make_feeds(self) -> Sequence[Feed]:
        return [self.feed(self._refresh, answer_wait_max_s=SERVER_WAIT_MAX_S)]

    async def _refresh(self, feed: Feed) -> None:
        found = await feed.ask(broker_sets.read_sets, self.dashboard.memory, self.dashboard.now_ms())
        sampler = self.dashboard.sampler
        if sampler is None:
            return
        sampler.pulse.take_sets(found.sets)
        sampler.pulse.take_set_findings(found.sets, found.findings)
        found, changes = self._own(found), sampler.pulse.set_changes
        moves = {str(one.number): one for one in changes.newest_first() if self._is_own(one.broker_name)}
        self.show(self._advice(found), found.rows, moves, changes.since_ms)

    def _is_own(self, name: str) -> bool:
        return self._broker_name in (None, name, name.partition("/")[0])

    def _own(self, found: ReadSets) -> ReadSets:
        return ReadSets(
            [one for one in found.sets if self._is_own(one.broker_name)],
            {key: row for key, row in found.rows.items() if self._is_own(row.of_set.broker_name)},
            [one for one in found.findings if self._is_own(one.subject.name)],
        )

    def _advice(self, found: ReadSets) -> list[Content]:
        """The sets without a master and for how long, then each problem with its remedy, in the words of `doctor`."""
        sampler, now_ms = self.dashboard.sampler, self.dashboard.now_ms()
        assert sampler is not None
        lines = []
        for one in found.sets:
            without_ms = sampler.pulse.set_changes.without_master_ms(one.broker_name, now_ms)
            if without_ms is not None:
                text = f"{one.broker_name} has had no master for {elapsed(without_ms)}"
                lines.append(Content.styled(text, "bold $text-error"))
        lines += finding_lines(found.findings[:FINDINGS_SHOWN_MAX], are_named=True)
        if len(found.findings) > FINDINGS_SHOWN_MAX:
            left = len(found.findings) - FINDINGS_SHOWN_MAX
            lines.append(Content(f"and {left} more: rmqadmin doctor --quick"))
        return lines or [_no_problem(found)]

    def rows_text(self) -> str:
        names = {self.map.part(key).of_set.broker_name for key in self.map.row_keys()}
        return f"{counted(len(names), 'set')}, {counted(self.map.all_count, 'broker')}" if names else "sets unknown"

    def selected(self) -> dict[str, str]:
        row: SetRow | None = self.map.chosen
        if row is None:
            return {}
        of_set, addr = row.of_set, row.member.broker_addr
        controllers = {"HOST:PORT[;...]": of_set.controller_addrs} if of_set.controller_addrs else {}
        return {"HOST:PORT": addr, "BROKER": of_set.broker_name, "CLUSTER": of_set.cluster, **controllers}


def _no_problem(found: ReadSets) -> Content:
    """What can be said if nothing is known to be wrong. Nothing is known of a single broker that does not answer."""
    silent_count = sum(row.member.error is not None for row in found.rows.values())
    if silent_count:
        count = counted(len(found.rows), "broker")
        return Content.styled(f"unknown: {silent_count:,} of {count} cannot be asked", "$text-warning")
    if not found.sets:
        return Content("the name server knows no broker")
    return Content(f"every set has its master, and {in_sync_text(found.sets)}")
