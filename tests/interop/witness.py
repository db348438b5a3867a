"""The Java client of the release, and the verbs that it understands: each verb of ``java/Witness.java`` is a method
here."""

from collections.abc import Collection, Sequence
from pathlib import Path

from .apache import java_command
from .client import CallFailed, Client, Consumer, eventually, of_type
from .events import Assigned, Found, Member, Message, Progress, Pulled, Queue

REBALANCE_INTERVAL_MS = 1000  # the client's default is 20 s

__all__ = ["CallFailed", "Consumer", "Witness", "eventually", "of_type"]


class Witness(Client):
    """The Java client against one nameserver. ``serialization`` is the form of request headers: JSON or ROCKETMQ."""

    def __init__(
        self,
        namesrv_addr: str,
        home: Path,
        serialization: str = "JSON",
        rebalance_interval_ms: int = REBALANCE_INTERVAL_MS,
        java_options: Sequence[str] = (),
    ):
        """With a long ``rebalance_interval_ms`` its consumers rebalance only when the broker notifies them."""
        options = (
            f"-Drocketmq.serialize.type={serialization}",
            f"-Drocketmq.client.rebalance.waitInterval={rebalance_interval_ms}",
            "-Drocketmq.client.rebalance.minInterval=100",  # the default of 1 s delays the start of every consumer
            *java_options,
        )
        super().__init__(java_command(home, "Witness", namesrv_addr, options=options), home)

    # Topics and groups

    def create_topic(self, topic: str, *, queues: int = 4, perm: int = 6, order: bool = False) -> str:
        self.call("create_topic", topic=topic, queues=queues, perm=perm, order=order).result()
        return topic

    def create_group(self, group: str, *, retry_max_times: int = 16, orderly: bool = False) -> str:
        self.call("create_group", group=group, retryMaxTimes=retry_max_times, orderly=orderly).result()
        return group

    def progress(self, group: str, topic: str) -> dict[int, Progress]:
        return {p.queue_id: p for p in of_type(self.call("progress", group=group, topic=topic).result(), Progress)}

    def until_caught_up(self, group: str, topic: str, queue_ids: Collection[int] | None = None) -> dict[int, Progress]:
        """Waits until ``progress`` shows no lag in the queues (default: all). A Java consumer commits by oneway
        requests. When it stops, the last of them come after it has unlocked its queues and left the group: its client
        writes them in another thread. A member that takes over before they come gets all messages since the commit
        before again."""

        def settled() -> list[dict[int, Progress]]:
            queues = self.progress(group, topic)
            wanted = queues.keys() if queue_ids is None else queue_ids
            is_done = all(q in queues and queues[q].committed_offset == queues[q].broker_offset for q in wanted)
            return [queues] if queues and is_done else []

        return eventually(settled, 1)[0]

    def members(self, group: str) -> set[str]:
        """Client ids of the connected consumers; CallFailed with code 206 if there are none."""
        return {m.client_id for m in of_type(self.call("members", group=group).result(), Member)}

    def assigned(self, group: str, topic: str, client_id: str) -> set[int]:
        """Queue ids of the topic that the member claims to have, from its running info, which the broker fetches."""
        events = self.call("assigned", group=group, topic=topic, clientId=client_id).result()
        return {a.queue_id for a in of_type(events, Assigned)}

    # Consuming

    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max: int = 32,
        expression: str = "*",
        block: bool = False,
        group: str | None = None,
        commit: bool = False,
    ) -> tuple[Pulled, list[Message]]:
        """Pulls once. The pull consumer stays a member of ``group`` as long as the witness runs."""
        events = self.call(
            "pull", topic=topic, queueId=queue_id, queueOffset=queue_offset, max=max, expression=expression,
            block=block, group=group, commit=commit,
        ).result()  # fmt: skip
        return of_type(events, Pulled)[0], of_type(events, Message)

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Commits one queue's offset for a group that is offline."""
        self.call("commit", group=group, topic=topic, queueId=queue_id, queueOffset=queue_offset).result()

    # Reading

    def read_all(self, topic: str, count: int) -> list[Message]:
        """Every message of the topic, ordered by queue and offset, once there are ``count``: a broker may answer a send
        before consumers see the message, and even before the topic exists."""
        return eventually(lambda: self.read_now(topic), count)

    def read_now(self, topic: str) -> list[Message]:
        return of_type(self.call("read_all", topic=topic).result(), Message)

    def query_key(
        self, topic: str, key: str, *, max: int = 32, begin_ms: int | None = None, end_ms: int | None = None
    ) -> list[Message]:
        """CallFailed with code 208 if there is none."""
        return of_type(
            self.call("query_key", topic=topic, key=key, max=max, begin=begin_ms, end=end_ms).result(), Message
        )

    def query_unique_id(self, topic: str, msg_id: str) -> list[Message]:
        return of_type(self.call("query_unique_id", topic=topic, msgId=msg_id).result(), Message)

    def view(self, topic: str, offset_msg_id: str) -> Message:
        return of_type(self.call("view", topic=topic, msgId=offset_msg_id).result(), Message)[0]

    def offsets(self, topic: str) -> dict[int, Queue]:
        return {q.queue_id: q for q in of_type(self.call("offsets", topic=topic).result(), Queue)}

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        return of_type(
            self.call("search_offset", topic=topic, queueId=queue_id, timestamp=timestamp_ms).result(), Found
        )[0].queue_offset
