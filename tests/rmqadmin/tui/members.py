"""Misbehaving members of a group: a connection that joins and then answers whatever a test wants, or nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from typing import Protocol, Self

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, Heartbeat, SubscriptionData
from rmqproto.bodies.statistics import THREADS, ConsumeRates, ConsumerRunningInfo, ProcessQueueInfo
from rmqproto.codes import RESPONSE_FLAG, RequestCode
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.fastjson import ObjectMap
from tests.support.wire import Wire


class HasBroker(Protocol):
    """A server of ours, or a cluster of the interop tests."""

    @property
    def broker_addr(self) -> str: ...


class ScriptedMember:
    """Is online in a group during the ``with`` block. With ``owns`` None it never answers."""

    def __init__(
        self,
        server: HasBroker,
        group: str,
        topic: str,
        *,
        client_id: str,
        owns: Iterable[MessageQueue] | None,
        expression: str = "*",
        rates: ConsumeRates | None = None,
    ):
        """``rates``: what it tells of the topic, and that it has 20 threads; None for a member that does not tell."""
        self._wire = Wire(server.broker_addr)
        self._subscription = SubscriptionData(topic=topic, sub_string=expression, sub_version=1)
        self._rates = {} if rates is None else {topic: rates}
        self._owns = None if owns is None else list(owns)
        heartbeat = Heartbeat(
            client_id=client_id,
            consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=[self._subscription])],
        )
        answer = self._wire.ask(RequestCode.HEART_BEAT, body=fastjson.dumps(heartbeat))
        assert answer.code == 0, answer.remark
        self._thread = threading.Thread(target=self._answer_questions, name=client_id)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.hang_up()
        self._thread.join()
        self._wire.close()

    def take(self, owns: Iterable[MessageQueue]) -> None:
        """From now on it reports these queues as its own."""
        self._owns = list(owns)

    def _answer_questions(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # hang up, maybe during an answer
            while True:
                question = self._wire.receive()
                if question.code == RequestCode.GET_CONSUMER_RUNNING_INFO and self._owns is not None:
                    self._wire.send(
                        encode_frame(Command(code=0, opaque=question.opaque, flag=RESPONSE_FLAG, body=self._info()))
                    )

    def _info(self) -> bytes:
        table = ObjectMap({queue: ProcessQueueInfo() for queue in self._owns or ()})
        info = ConsumerRunningInfo(mq_table=table, subscription_set=[self._subscription])
        info.status_table, info.properties = self._rates, {THREADS: "20"}
        return fastjson.dumps(info)
