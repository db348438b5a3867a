"""Clients in plain threads, as Flask, Celery and scripts use them."""

import asyncio
import inspect
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent
from typing import Any, get_type_hints

import pytest

from rmqclient import (
    ConsumeFrom,
    LitePullConsumer,
    LitePushConsumer,
    LocalTransactionState,
    Message,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionProducer,
)
from rmqclient.admin import AdminClient
from rmqclient.threads import LOOP_THREAD_NAME
from rmqproto.errors import NotConnectedError, RefusedError, UsageError
from tests.support.servers import Fresh, Server, create_topic

TIMEOUT_S = 30.0


def bodies_of(server: Server, topic: str) -> list[bytes]:
    with PullConsumer.blocking(server.namesrv_addr, "reader") as reader:
        (queue,) = reader.queues(topic)
        return [message.body for message in reader.pull(queue, 0).messages]


class Kept:
    """A plain listener."""

    def __init__(self, count: int):
        self.bodies: list[bytes] = []
        self.threads: set[str] = set()
        self.all_came = threading.Event()
        self._count = count

    def __call__(self, message: ReceivedMessage) -> None:
        self.bodies.append(message.body)
        self.threads.add(threading.current_thread().name)
        if len(self.bodies) >= self._count:
            self.all_came.set()


def test_many_threads_send_with_one_producer(server: Server, topic: str) -> None:
    with Producer.blocking(server.namesrv_addr, "p") as producer, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: producer.send(Message(topic, b"%d" % n)), range(30)))
    assert sorted(result.queue_offset for result in results) == list(range(30))
    assert sorted(bodies_of(server, topic), key=int) == [b"%d" % n for n in range(30)]


@pytest.mark.parametrize(("kind", "more"), [(PushConsumer, {}), (PopConsumer, {"set_mode": True})])
def test_a_plain_listener_consumes_in_threads(
    kind: Any, more: dict[str, Any], server: Server, topic: str, fresh: Fresh
) -> None:
    kept = Kept(5)
    more["consume_from"] = ConsumeFrom.FIRST_OFFSET
    with kind.blocking(server.namesrv_addr, fresh("G"), {topic: "*"}, kept, **more) as consumer:
        assert consumer.wait_assigned()
        with Producer.blocking(server.namesrv_addr, "p") as producer:
            for number in range(5):
                producer.send(Message(topic, b"%d" % number))
        assert kept.all_came.wait(TIMEOUT_S)
    assert sorted(kept.bodies) == [b"0", b"1", b"2", b"3", b"4"]
    assert "rmqclient" not in kept.threads, "the loop goes on while a listener blocks"


def test_a_listener_may_send(server: Server, topic: str, fresh: Fresh) -> None:
    answers = create_topic(server, fresh("Answers"))
    done = threading.Event()
    with Producer.blocking(server.namesrv_addr, "p") as producer:

        def listen(message: ReceivedMessage) -> None:
            producer.send(Message(answers, b"re: " + message.body))
            done.set()

        options: dict[str, Any] = {"consume_from": ConsumeFrom.FIRST_OFFSET}
        with PushConsumer.blocking(server.namesrv_addr, fresh("G"), {topic: "*"}, listen, **options):
            producer.send(Message(topic, b"hello"))
            assert done.wait(TIMEOUT_S)
    assert bodies_of(server, answers) == [b"re: hello"]


def test_consumers_that_are_asked(server: Server, topic: str, fresh: Fresh) -> None:
    with Producer.blocking(server.namesrv_addr, "p") as producer:
        producer.send(Message(topic, b"one"))
        with LitePullConsumer.blocking(server.namesrv_addr, fresh("G"), consume_from=ConsumeFrom.FIRST_OFFSET) as lite:
            lite.subscribe(topic)
            assert [message.body for message in lite.poll(TIMEOUT_S)] == [b"one"]
            lite.commit()
        with SimpleConsumer.blocking(server.namesrv_addr, fresh("G"), consume_from=ConsumeFrom.FIRST_OFFSET) as simple:
            (message,) = simple.pop(topic, wait_s=10)
            simple.ack(message)


def test_a_transaction(server: Server, topic: str) -> None:
    class Booked:
        def execute_local_transaction(self, message: Message) -> LocalTransactionState:
            return LocalTransactionState.COMMIT

        check_local_transaction = execute_local_transaction

    with TransactionProducer.blocking(server.namesrv_addr, "tp", Booked()) as producer:  # type: ignore[arg-type]
        assert producer.send_in_transaction(Message(topic, b"booked")).state is LocalTransactionState.COMMIT
    assert bodies_of(server, topic) == [b"booked"]


@pytest.mark.parametrize(
    "client",
    [LitePullConsumer, LitePushConsumer, PopConsumer, Producer, PullConsumer, PushConsumer, SimpleConsumer,
     TransactionProducer],
)  # fmt: skip
def test_for_threads_there_is_every_method(client: Any) -> None:
    methods = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
    assert methods - set(dir(get_type_hints(client.blocking)["return"])) == set()


def test_errors_are_those_of_the_client(server: Server, topic: str) -> None:
    with pytest.raises(UsageError, match="group"):
        Producer.blocking(server.namesrv_addr, "no group!")
    producer = Producer.blocking("127.0.0.1:1", "p")
    with pytest.raises(UsageError, match="not open"):
        producer.send(Message(topic, b"x"))
    with producer, pytest.raises(NotConnectedError):
        producer.send(Message(topic, b"x"), timeout_s=0.2)
    producer.close()
    with pytest.raises(UsageError, match="was closed"):
        producer.send(Message(topic, b"x"))
    with pytest.raises(UsageError, match="make another"):
        producer.open()
    Producer.blocking(server.namesrv_addr, "p").close()  # as in a `finally` when `open` was not reached


def test_what_the_body_raises_comes_out_as_it_is(server: Server) -> None:
    with pytest.raises(ValueError, match="mine"), Producer.blocking(server.namesrv_addr, "p"):
        raise ValueError("mine")


def test_ctrl_c_ends_a_call_that_waits(server: Server, topic: str) -> None:
    with SimpleConsumer.blocking(server.namesrv_addr, "G") as consumer:
        main = threading.main_thread().ident
        assert main is not None
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        began_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            consumer.pop(topic, wait_s=20)
        assert time.monotonic() - began_s < 15
        assert consumer.queues(topic), "the client goes on"


def test_ctrl_c_ends_an_open_that_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a name server that says nothing
        addr = f"127.0.0.1:{silent.getsockname()[1]}"
        consumer = PushConsumer.blocking(addr, "G", {"T": "*"}, lambda message: None)
        main = threading.main_thread().ident
        assert main is not None
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            consumer.open()
        assert not [thread for thread in threading.enumerate() if thread.name == LOOP_THREAD_NAME]


def test_a_closed_client_leaves_nothing(server: Server) -> None:
    before = threading.active_count()
    clients = [Producer.blocking(server.namesrv_addr, "p") for _ in range(4)]
    for client in clients:
        with client:
            pass
    assert threading.active_count() <= before + 1, "one thread waits for the end of the program"


def test_clients_close_beside_each_other(server: Server, topic: str, fresh: Fresh) -> None:
    begun = [threading.Event() for _ in range(3)]
    go_on = threading.Event()

    def listener(number: int) -> Callable[[ReceivedMessage], None]:
        def listen(message: ReceivedMessage) -> None:
            begun[number].set()
            go_on.wait(TIMEOUT_S)

        return listen

    consumers = [
        PushConsumer.blocking(
            server.namesrv_addr, fresh("G"), {topic: "*"}, listener(number), consume_from=ConsumeFrom.FIRST_OFFSET
        ).open()
        for number in range(3)
    ]
    with Producer.blocking(server.namesrv_addr, "p") as producer:
        producer.send(Message(topic, b"x"))
    assert all(each.wait(TIMEOUT_S) for each in begun)
    closing = [threading.Thread(target=consumer.close) for consumer in consumers]
    for thread in closing:
        thread.start()
    idle = Producer.blocking(server.namesrv_addr, "p").open()
    idle.close()
    assert all(thread.is_alive() for thread in closing), "those still wait for their listeners"
    go_on.set()
    for thread in closing:
        thread.join()


def test_what_a_listener_does_to_its_thread_is_a_failure_like_any_other(
    server: Server, topic: str, fresh: Fresh
) -> None:
    kept: list[bytes] = []
    done = threading.Event()

    def listener(message: ReceivedMessage) -> None:
        kept.append(message.body)
        if message.body == b"last":
            done.set()
        elif message.body == b"exit":
            sys.exit(3)
        else:
            raise asyncio.CancelledError

    with Producer.blocking(server.namesrv_addr, "p") as producer:
        for body in (b"exit", b"cancelled", b"cancelled", b"last"):
            producer.send(Message(topic, body))
    first = ConsumeFrom.FIRST_OFFSET
    with PushConsumer.blocking(
        server.namesrv_addr, fresh("G"), {topic: "*"}, listener, concurrency=1, consume_from=first
    ):
        assert done.wait(TIMEOUT_S), kept


def test_more_threads_while_it_runs(server: Server, topic: str, fresh: Fresh) -> None:
    all_three, begun = threading.Barrier(4, timeout=TIMEOUT_S), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        begun.set()
        all_three.wait()

    with Producer.blocking(server.namesrv_addr, "p") as producer:
        for _ in range(3):
            producer.send(Message(topic, b"x"))
    first = ConsumeFrom.FIRST_OFFSET
    with PushConsumer.blocking(
        server.namesrv_addr, fresh("G"), {topic: "*"}, listener, concurrency=1, consume_from=first
    ) as consumer:
        assert begun.wait(TIMEOUT_S)
        consumer.set_concurrency(3)
        all_three.wait()


def run(code: str, *args: str) -> None:
    """Runs a program, which must end well and say nothing."""
    code = "import os, sys\nfrom rmqclient import *\n" + dedent(code)
    ended = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_program_that_ends_without_close_loses_nothing(server: Server, topic: str) -> None:
    run(
        """
        producer = Producer.blocking(sys.argv[1], "p").open()
        producer.send(Message(sys.argv[2], b"sent"))
        producer.send_oneway(Message(sys.argv[2], b"x" * 3_000_000))
        producer.send_oneway(Message(sys.argv[2], b"last"))
        """,
        server.namesrv_addr, topic,
    )  # fmt: skip
    assert [body[:4] for body in bodies_of(server, topic)] == [b"sent", b"xxxx", b"last"]


def test_the_programs_own_threads_end_before_its_clients(server: Server, topic: str) -> None:
    run(
        """
        import threading, time
        producer = Producer.blocking(sys.argv[1], "p").open()

        def work():
            threading.main_thread().join()
            for number in range(3):
                time.sleep(0.1)
                producer.send(Message(sys.argv[2], b"%d" % number))

        threading.Thread(target=work).start()
        """,
        server.namesrv_addr, topic,
    )  # fmt: skip
    assert bodies_of(server, topic) == [b"0", b"1", b"2"]


def test_a_consumer_that_is_not_closed_leaves_its_group(server: Server, topic: str, fresh: Fresh) -> None:
    group = fresh("G")
    run(
        """
        consumer = PushConsumer.blocking(sys.argv[1], sys.argv[3], {sys.argv[2]: "*"}, lambda message: None).open()
        consumer.wait_assigned()
        """,
        server.namesrv_addr, topic, group,
    )  # fmt: skip
    with AdminClient(server.namesrv_addr) as admin, pytest.raises(RefusedError, match="no consumer for this group"):
        admin.consumer_ids(server.broker_addr, group)


def test_a_forked_process_is_told_to_open_its_own(server: Server, topic: str) -> None:
    run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads
        producer = Producer.blocking(sys.argv[1], "p").open()
        producer.send(Message(sys.argv[2], b"parent"))
        if child := os.fork():
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            producer.send(Message(sys.argv[2], b"parent again"))
            producer.close()
        else:
            try:
                producer.send(Message(sys.argv[2], b"child"))
            except Exception as error:
                assert "before the process was forked" in str(error), error
            with Producer.blocking(sys.argv[1], "p") as own:
                own.send(Message(sys.argv[2], b"child"))
        """,
        server.namesrv_addr, topic,
    )  # fmt: skip
    assert bodies_of(server, topic) == [b"parent", b"child", b"parent again"]
