"""The common part of all admin calls: the blocking client, name servers tried in turn, and the guard that stops a
read-only client from changing anything."""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import msgspec

from rmqclient.address_map import NO_MAP, AddressMap
from rmqclient.addresses import parse_namesrvs
from rmqclient.blocking import OUTCOME_UNKNOWN, TIMEOUT_S, BlockingClient
from rmqclient.remoting.requests import Fields, request_label
from rmqproto.codes import SUCCESS_ALONE, OwnRequestCode, RequestCode
from rmqproto.errors import ConnectError, ProtocolError, RefusedError, RequestTimeoutError, UsageError
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

R = RequestCode
READING_CODES = frozenset({
    R.PULL_MESSAGE, R.QUERY_MESSAGE, R.QUERY_CONSUMER_OFFSET, R.GET_ALL_TOPIC_CONFIG, R.GET_BROKER_CONFIG,
    R.GET_BROKER_RUNTIME_INFO, R.SEARCH_OFFSET_BY_TIMESTAMP, R.GET_MAX_OFFSET, R.GET_MIN_OFFSET,
    R.GET_EARLIEST_MSG_STORETIME, R.VIEW_MESSAGE_BY_ID, R.GET_CONSUMER_LIST_BY_GROUP, R.GET_ALL_CONSUMER_OFFSET,
    R.GET_ALL_DELAY_OFFSET, R.CHECK_CLIENT_CONFIG, R.GET_KV_CONFIG, R.GET_ROUTEINFO_BY_TOPIC,
    R.GET_BROKER_CLUSTER_INFO, R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, R.GET_TOPIC_STATS_INFO,
    R.GET_CONSUMER_CONNECTION_LIST, R.GET_PRODUCER_CONNECTION_LIST, R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    R.GET_CONSUME_STATS, R.GET_KVLIST_BY_NAMESPACE, R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, R.GET_TOPICS_BY_CLUSTER,
    R.QUERY_TOPIC_CONSUME_BY_WHO, R.QUERY_CONSUME_TIME_SPAN, R.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, R.GET_CONSUMER_RUNNING_INFO, R.QUERY_CORRECTION_OFFSET,
    R.GET_UNIT_TOPIC_LIST, R.GET_HAS_UNIT_SUB_TOPIC_LIST, R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    R.VIEW_BROKER_STATS_DATA, R.GET_BROKER_CONSUME_STATS, R.GET_NAMESRV_CONFIG, R.QUERY_CONSUME_QUEUE,
    R.GET_ALL_PRODUCER_INFO, R.QUERY_TOPICS_BY_CONSUMER, R.QUERY_SUBSCRIPTION_BY_CONSUMER, R.GET_TOPIC_CONFIG,
    R.GET_ALL_MESSAGE_REQUEST_MODE, R.GET_BROKER_MEMBER_GROUP, R.GET_BROKER_HA_STATUS, R.CONTROLLER_GET_METADATA_INFO,
    R.CONTROLLER_GET_SYNC_STATE_DATA, R.GET_BROKER_EPOCH_CACHE, R.GET_COLD_DATA_FLOW_CTR_INFO, R.GET_CONTROLLER_CONFIG,
    R.AUTH_GET_USER, R.AUTH_LIST_USER, R.AUTH_GET_ACL, R.AUTH_LIST_ACL, R.GET_BROKER_LITE_INFO,
    R.GET_PARENT_TOPIC_INFO, R.GET_LITE_TOPIC_INFO, R.GET_LITE_CLIENT_INFO, R.GET_LITE_GROUP_INFO,
    R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, OwnRequestCode.GET_FAULTS, OwnRequestCode.GET_SNAPSHOTS,
})  # fmt: skip
"""The requests that a read-only client may send. 352 GET_SUBSCRIPTIONGROUP_CONFIG is not among them: a broker that
creates groups automatically creates the one it is asked about."""


class AdminCaller:
    """Base of the admin client: one socket per address, opened at the first call. Usable from any thread."""

    def __init__(
        self,
        namesrv_addrs: str,
        credentials: Credentials | None = None,
        timeout_s: float = TIMEOUT_S,
        *,
        read_only: bool = False,
        before_change: Callable[[], None] = lambda: None,
        before_namesrv: Callable[[], None] = lambda: None,
        tls: ssl.SSLContext | None = None,
        address_map: AddressMap = NO_MAP,
        client: BlockingClient | None = None,
        give_back: Callable[[BlockingClient], None] = lambda client: None,
    ):
        """``namesrv_addrs``: ``host[:port][;host[:port]…]`` (UsageError). ``timeout_s`` is for each request. With
        ``read_only`` every call that could change something raises UsageError before anything is sent. Otherwise
        ``before_change`` is called first, in the caller's thread; its errors are raised as they are. ``before_namesrv``
        is called before each request to a name server. ``tls`` and ``address_map`` are used for
        every connection.

        ``client`` is a client to use in place of a new one, with its own credentials, TLS and map. ``close`` leaves it
        open and passes it to ``give_back`` once; another owner may use it from then on."""
        self.namesrv_addrs = parse_namesrvs(namesrv_addrs)
        self.read_only = read_only
        self._before_change = before_change
        self._before_namesrv = before_namesrv
        self.timeout_s = timeout_s
        self._owns_client = client is None
        self._give_back = give_back
        self._giving_back = Lock()
        self._is_given_back = False
        self._client = client or BlockingClient(credentials, timeout_s, tls=tls, address_map=address_map)
        self.current_namesrv = self.namesrv_addrs[0]
        """The name server that answered last. It is asked first."""

    def cancel(self) -> None:
        """Makes every thread that waits for an answer raise ConnectError. The client stays usable."""
        with self._giving_back:
            if not self._is_given_back:
                self._client.cancel()

    @property
    def connections(self) -> BlockingClient:
        """The client without these guards, for requests that are no admin calls, such as many pulls."""
        return self._client

    def close(self) -> None:
        if self._owns_client:
            self._client.close()
            return
        with self._giving_back:
            was_given_back, self._is_given_back = self._is_given_back, True
        if not was_given_back:
            self._give_back(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self,
        address: str,
        code: int,
        header: Fields | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        accept: Collection[int] = SUCCESS_ALONE,
    ) -> Command:
        """One request to one server: every admin call comes through here. Errors as ``BlockingClient.request``."""
        wait_s = self.wait_s(address, timeout_s)
        if code not in READING_CODES:
            self.permit_change(f"request {request_label(code)}")
        if address in self.namesrv_addrs:
            self._before_namesrv()
        try:
            return self._client.request(address, code, header, body, timeout_s=wait_s, accept=accept)
        except RequestTimeoutError as error:
            if code in READING_CODES and error.hint is not None:
                error.hint = error.hint.replace(OUTCOME_UNKNOWN, "It was a question: nothing was changed.")
            raise

    def permit_change(self, what: str) -> None:
        """Called before each change, including one that a user of this client makes in another way. UsageError if the
        client is read-only; errors of ``before_change``."""
        if self.read_only:
            raise UsageError(f"{what} could change something, and this client is read-only")
        self._before_change()

    def wait_s(self, address: str, timeout_s: float | None) -> float:
        """The longest wait for the answer to one request. It is called before every request: a subclass may shorten the
        wait, or raise an error so that nothing is sent."""
        return self.timeout_s if timeout_s is None else timeout_s

    def call_namesrv(self, code: int, header: Fields | None = None) -> Command:
        """Sends one reading request to the name server that answered last or, if it cannot be reached, to the next
        one."""
        current = self.current_namesrv
        failure: ConnectError | RequestTimeoutError | None = None
        for address in [current, *(other for other in self.namesrv_addrs if other != current)]:
            try:
                answer = self.call(address, code, header)
            except (ConnectError, RequestTimeoutError) as error:
                failure = failure or error
            except RefusedError:
                self.current_namesrv = address  # a refusal is an answer, too
                raise
            else:
                self.current_namesrv = address
                return answer
        assert failure is not None
        raise failure

    def read(
        self, address: str, code: int, header: Fields | None, type: type[T], *, timeout_s: float | None = None
    ) -> T:
        """The body of one answer as ``type``. ProtocolError if it is missing or of another type."""
        return body_of(self.call(address, code, header, timeout_s=timeout_s), type)


def body_of(answer: Command, type: type[T]) -> T:
    if not answer.body:
        raise ProtocolError(f"the answer holds no {type.__name__}")
    return fastjson.loads_untrusted(answer.body, type)


PAGE_COUNT = 2000
"""Entries of a table to ask for at once: the number that a broker gives by default."""

PAGES_MAX = 10_000


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page of a broker's table. ``total`` is the count of the whole table; it is None from brokers up to 5.3.3, which
    send everything at once. ``version`` is the JSON of the table's data version."""

    body: T
    count: int
    total: int | None
    version: str


def read_pages(read_page: Callable[[int, str | None], Page[T]]) -> list[T]:
    """All pages of one version of a table, read by ``read_page(first entry, version so far)``.

    If the table changes while it is read, the broker starts again at its first entry, and so does this function.
    ProtocolError after PAGES_MAX pages.
    """
    pages: list[T] = []
    seq, version = 0, None
    for _ in range(PAGES_MAX):
        page = read_page(seq, version)
        if version is not None and page.version != version:
            pages, seq = [], 0
        pages.append(page.body)
        seq, version = seq + page.count, page.version
        if page.total is None or page.count == 0 or seq >= page.total:
            return pages
    raise ProtocolError(f"a table did not end after {PAGES_MAX} pages")
