"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361), and their answers (``DefaultPullMessageResultHandler``, 5.5.0). Bodies
are the stored bytes themselves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import ONEWAY_FLAG, ResponseCode
from rmqproto.codes import RequestCode as R
from rmqproto.headers.consuming import PullAnswer, PullHeader
from rmqserver.broker.consuming.pull import AskedPull, PullOutcome
from rmqserver.doors.remoting.handlers import answering
from rmqserver.doors.remoting.sent_answers import FOUND, HEAD, found_pieces
from rmqserver.remoting.answer import Request, answer_frame, send_answer
from rmqserver.store.disk.cached_reads import NotCached
from rmqserver.store.results import GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.assembly import BrokerAssembly
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

OFFSET_RESET = "OFFSET_RESET"
"""Remark for a consumer that is told where to go on because an operator has reset its group."""

# A member looked up by name costs ten times as much as a global.
_LITE_PULL, _SUCCESS = int(R.LITE_PULL_MESSAGE), int(ResponseCode.SUCCESS)


def pull_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    return dict.fromkeys((R.PULL_MESSAGE, R.LITE_PULL_MESSAGE), partial(_serve, parts))


def _serve(parts: BrokerAssembly, request: Request[PullHeader], connection: Connection) -> None:
    pulls, header, is_lite = parts.pulls, request.header, request.code == _LITE_PULL
    if header.lite_topic:
        header = pulls.at_light_queue(header, connection)
    try:
        pulled = pulls.pull(header, is_lite, connection)
    except NotCached:
        pulled = None
    if pulled is not None and pulled.result.chunks:  # the direct way of nearly all: nothing is made to go on later
        pulls.count_found(pulled)
        _answer(request, connection, _SUCCESS, pulled)
        if parts.pull_plans.pays(pulled) and not (request.codec or is_lite or request.is_oneway):
            pieces = found_pieces(pulled.group.group_sys_flag, pulled.topic.topic_sys_flag)
            parts.pull_plans.leave(request.raw_header, request.opaque, header, pulled, pieces)
        return
    then, guarded = partial(_answer, request, connection), partial(answering, request, connection)
    pulls.go_on(AskedPull(header, is_lite, connection, then, guarded), pulled)


def _answer(request: Request[PullHeader], connection: Connection, code: int, pulled: PullOutcome) -> None:
    result, topic, group = pulled.result, pulled.topic, pulled.group
    body = result.chunks[0] if len(result.chunks) == 1 else b"".join(result.chunks)
    if code == _SUCCESS and not request.codec:
        if request.flag & ONEWAY_FLAG:
            return
        values = (
            group.group_sys_flag, result.max_offset, result.min_offset, result.next_offset, pulled.suggested_broker_id,
            topic.topic_sys_flag, request.opaque,
        )  # fmt: skip
        header = FOUND % values
        # In two pieces, because the connection joins all it sends in one go: a long run of records is copied once.
        connection.send(HEAD.pack(4 + len(header) + len(body), len(header)) + header)
        connection.send(body)
        return
    answer = PullAnswer(
        suggest_which_broker_id=pulled.suggested_broker_id,
        next_begin_offset=result.next_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
        topic_sys_flag=topic.topic_sys_flag,
        group_sys_flag=group.group_sys_flag,
    )
    send_answer(request, connection, answer_frame(request, code, _remark(pulled), answer, body))


def _remark(pulled: PullOutcome) -> str:
    if pulled.is_reset:
        return OFFSET_RESET
    status = pulled.result.status
    # To clients, a queue that no message has reached is an empty one.
    return GetStatus.NO_MESSAGE_IN_QUEUE.value if status is GetStatus.NO_MATCHED_LOGIC_QUEUE else status.value
