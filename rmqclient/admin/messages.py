"""Admin calls about messages: look up, pull, send, send back.

Each call imports the code for messages itself, because most commands handle no messages.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqclient.admin.caller import AdminCaller
from rmqproto import headers
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.names import TOOLS_CONSUMER_GROUP

if TYPE_CHECKING:
    from rmqclient.message import Message, SendResult
    from rmqclient.pull import PullResult
    from rmqclient.sending import EncodedSend
    from rmqproto.message.record import StoredMessage

TOOLS_PRODUCER_GROUP = "TOOLS_PRODUCER"

QUERY_TIMEOUT_FACTOR = 3.6
"""A look-up in the index may touch many cold files. The factor also applies to --timeout, and gives mqadmin's
time-out."""

QUERY_COUNT = 32


class MessageCalls(AdminCaller):
    """``broker_addr`` is ``host:port`` throughout; all times are ms since the epoch."""

    def view_message(self, broker_addr: str, log_offset: int, topic: str | None = None) -> StoredMessage:
        """The message at a commit log offset (33). RefusedError with code 1 if none begins there."""
        from rmqproto.message.record import decode_record_untrusted

        header = headers.consuming.ViewMessageHeader(offset=log_offset, topic=topic)
        return decode_record_untrusted(self.call(broker_addr, RequestCode.VIEW_MESSAGE_BY_ID, header).body)

    def query_message(
        self,
        broker_addr: str,
        topic: str,
        key: str,
        *,
        max_count: int = QUERY_COUNT,
        begin_ms: int = 0,
        end_ms: int = LONG_MAX,
        index_type: str | None = None,
        unique_key: bool = False,
        last_key: str | None = None,
    ) -> list[StoredMessage]:
        """Messages that the index has under a key (12), in the order of their commit log offsets. The index holds
        hashes: the caller must sort out messages whose keys only have the same hash.

        ``index_type`` is K for keys (the default), U for unique keys, T for tags; ``unique_key`` is the older way to
        say U. Times are store times.
        """
        from rmqproto.message.record import decode_records_untrusted

        header = headers.consuming.QueryMessageHeader(
            topic=topic,
            key=key,
            max_num=max_count,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            index_type=index_type,
            last_key=last_key,
            unique_key_query=unique_key,
        )
        accept = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        timeout_s = self.timeout_s * QUERY_TIMEOUT_FACTOR
        answer = self.call(broker_addr, RequestCode.QUERY_MESSAGE, header, timeout_s=timeout_s, accept=accept)
        return decode_records_untrusted(answer.body) if answer.code == ResponseCode.SUCCESS else []

    def pull_message(
        self,
        broker_addr: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        max_count: int | None = None,
        expression: str = "*",
        group: str = TOOLS_CONSUMER_GROUP,
    ) -> PullResult:
        """Messages of one queue from an offset on (11), at most ``max_count`` or PULL_BATCH_COUNT. It commits nothing
        and never waits for new messages. A queue that consumers do not read is read as well (``unread_queues``)."""
        from rmqclient.pull import PULL_ANSWER_CODES, pull_header, pull_result, pull_result_untrusted

        max_count = headers.consuming.PULL_BATCH_COUNT if max_count is None else max_count
        header = pull_header(group, queue, queue_offset, max_count=max_count, expression=expression)
        try:
            answer = self.call(broker_addr, RequestCode.PULL_MESSAGE, header, accept=PULL_ANSWER_CODES)
        except RefusedError as error:
            from rmqclient.unread_queues import pull_unread

            ask = partial(self.call, broker_addr)
            return pull_result(*pull_unread(ask, error, queue, queue_offset, max_count, expression), queue)
        return pull_result_untrusted(answer, queue)

    def send_message(
        self, broker_addr: str, queue: MessageQueue, message: Message, *, group: str = TOOLS_PRODUCER_GROUP
    ) -> SendResult:
        """Sends one message to one queue (310); queue id -1 leaves the choice to the broker. UsageError for a message
        that no broker would take. There are no retries."""
        from rmqclient.sending import SendRequests

        return self.send_encoded(broker_addr, queue, SendRequests(queue, group).of(message))

    def send_encoded(self, broker_addr: str, queue: MessageQueue, encoded: EncodedSend) -> SendResult:
        """As ``send_message``, for a send made by ``SendRequests`` of this queue."""
        from rmqclient.sending import STORED_CODES, send_result_untrusted

        ext, body, message_id = encoded
        answer = self.call(broker_addr, RequestCode.SEND_MESSAGE_V2, ext, body, accept=STORED_CODES)
        return send_result_untrusted(answer, message_id, queue)

    def send_message_back(
        self,
        broker_addr: str,
        group: str,
        message: StoredMessage,
        *,
        delay_level: int = 0,
        max_reconsume_times: int | None = None,
    ) -> None:
        """Makes the broker that stores a message copy it to a group's retry topic (36) or, with a negative
        ``delay_level`` or after ``max_reconsume_times``, to its dead-letter queue."""
        header = headers.sending.SendBackHeader(
            offset=message.log_offset,
            group=group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=max_reconsume_times,
        )
        self.call(broker_addr, RequestCode.CONSUMER_SEND_MSG_BACK, header)
