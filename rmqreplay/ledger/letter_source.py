"""Where a job's messages come from, as far as their ledgers ask: which brokers these are, and which message is at a
queue offset now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotConnectedError, NotFoundError, RefusedError
from rmqreplay.ledger.ledger import Fence
from rmqreplay.ledger.letters import REPLAY_ID, BrokerSeen, Letter, Place, letter_of
from rmqreplay.plans.plan import Plan
from rmqreplay.source.live import OpenCluster, queue_bounds
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import OneBroker, PullRules, pull_range
from rmqreplay.source.queue_ranges import DataLossError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient
    from rmqreplay.source.archive_view import ArchiveView
    from rmqreplay.source.store_view import StoreView

LOOK_PULLS_MAX = 64
"""How far beyond a fence the messages of a job are looked for. The first ones follow it closely."""
LOOK_TIMEOUT_S = 5.0
"""How long this look goes on trying: a person waits for it."""


class LetterSource(Protocol):
    """A cluster, or files."""

    @property
    def name_servers(self) -> frozenset[str]:
        """The addresses by which a cluster was found; none for files."""

    def broker(self, queue: MessageQueue) -> BrokerSeen:
        """What is known of the queue's broker; nothing if it cannot be asked for."""

    def letter(self, place: Place) -> Letter | None:
        """The message there; None if there is none, or none any more."""

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The first queue offset that exists, and the one that the next message will get. (0, 0) without the queue."""

    def lacks_job(self, job: str, fences: list[Fence]) -> bool:
        """Whether it is certain that this cluster has never got a message of the job, which sent above these fences."""


class LiveLetters:
    """The messages of a live cluster. ``admin`` stays open."""

    def __init__(self, admin: AdminClient):
        self._admin = admin
        self.name_servers = frozenset(admin.namesrv_addrs)
        self._routes: dict[str, dict[str, BrokerData]] = {}

    def broker(self, queue: MessageQueue) -> BrokerSeen:
        found = self._route(queue.topic).get(queue.broker_name)
        if found is None:
            return BrokerSeen()
        return BrokerSeen(found.cluster or "", sorted(found.broker_addrs.values()))

    def letter(self, place: Place) -> Letter | None:
        queue, queue_offset = place
        address = self._address(queue)
        if address is None:
            return None
        try:
            found = self._admin.pull_message(address, queue, queue_offset, max_count=1).messages
        except RefusedError as error:  # a name server may still name what was deleted
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return None
        return next((letter_of(stored) for stored in found if stored.queue_offset == queue_offset), None)

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """NotConnectedError if its broker is away: a name server then knows nothing of its topics."""
        address = self._address(queue)
        if address is not None:
            return queue_bounds(self._admin.connections, address, queue)
        if queue.broker_name not in self._admin.cluster_info().broker_addr_table:
            raise NotConnectedError(f"broker {queue.broker_name} of {queue.topic} is away")
        return 0, 0

    def lacks_job(self, job: str, fences: list[Fence]) -> bool:
        return bool(fences) and all(self._lacks_above(job, fence) for fence in fences)

    def _lacks_above(self, job: str, fence: Fence) -> bool:
        queue = fence.queue
        route = self._route(fence.topic)
        if not route:
            return True
        broker = route.get(fence.broker_name)
        if broker is None or broker.master_addr is None:
            return False
        first, last = queue_bounds(self._admin.connections, broker.master_addr, queue)
        if first > fence.queue_offset:
            return False
        if last <= fence.queue_offset:
            return True
        broker_alone = OneBroker(self._admin.connections, broker.master_addr)
        wanted, rules = OffsetRange(queue, fence.queue_offset, last), PullRules(read_timeout_s=LOOK_TIMEOUT_S)
        mark, looked_count = f"{REPLAY_ID}\x01{job}:".encode(), 0
        try:
            for body in islice(pull_range(broker_alone, wanted, rules), LOOK_PULLS_MAX):
                looked_count += 1
                if mark in body:
                    return False
        except DataLossError:
            return False
        return looked_count < LOOK_PULLS_MAX

    def _address(self, queue: MessageQueue) -> str | None:
        broker = self._route(queue.topic).get(queue.broker_name)
        return broker.selected_addr() if broker is not None else None

    def _route(self, topic: str) -> dict[str, BrokerData]:
        if topic not in self._routes:
            try:
                brokers = self._admin.topic_route(topic).broker_datas
            except RefusedError as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                brokers = []
            self._routes[topic] = {broker.broker_name: broker for broker in brokers}
        return self._routes[topic]


class FileLetters:
    """The messages of a store directory or an archive, which name neither a cluster nor what was sent where."""

    def __init__(self, view: ArchiveView | StoreView):
        self._view = view
        self.name_servers = frozenset[str]()

    def broker(self, queue: MessageQueue) -> BrokerSeen:
        return BrokerSeen()

    def letter(self, place: Place) -> Letter | None:
        try:
            return self._view.letter(*place)
        except NotFoundError:  # the queue's files are gone
            return None

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        try:
            return self._view.bounds(queue)
        except NotFoundError:
            return 0, 0

    def lacks_job(self, job: str, fences: list[Fence]) -> bool:
        return False


@contextmanager
def letters_of(plan: Plan, open_cluster: OpenCluster) -> Iterator[LetterSource]:
    """The source of a plan's messages, open."""
    if plan.source.path is not None:
        from rmqreplay.source.archive_view import open_files

        with open_files(plan.source.path, plan.source.broker_name) as view:
            yield FileLetters(view)
    else:
        with open_cluster(plan.source.name_server or "") as cluster:
            yield LiveLetters(cluster.admin)
