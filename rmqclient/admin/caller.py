"""The common part of all admin calls: the blocking client, name servers tried in turn, and the guard that stops a
read-only client from changing anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypedDict, TypeVar

import msgspec

from rmqclient.addresses import NO_MAP, AddressMap, parse_namesrvs
from rmqclient.blocking import OUTCOME_UNKNOWN, TIMEOUT_S, BlockingClient
from rmqclient.remoting.requests import Fields, request_label
from rmqproto.codes import SUCCESS_ALONE
from rmqproto.errors import ConnectError, ProtocolError, RefusedError, RequestTimeoutError, UsageError
from rmqproto.headers.request_table import READING_CODES
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")


class AskedHow(TypedDict, total=False):
    """Options of ``AdminCaller.call``."""

    timeout_s: float | None
    accept: Collection[int]


class AdminCaller:
    """Base of the admin client, whose connections are opened when they are needed. Usable from any thread."""

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
        self.connections = client or BlockingClient(credentials, timeout_s, tls=tls, address_map=address_map)
        """The client without these guards, for requests that are no admin calls, such as many pulls."""
        self.current_namesrv = self.namesrv_addrs[0]
        """The name server that answered last. It is asked first."""

    def cancel(self) -> None:
        """Makes every thread that waits for an answer raise ConnectError. The client stays usable."""
        with self._giving_back:
            if not self._is_given_back:
                self.connections.cancel()

    def close(self) -> None:
        if self._owns_client:
            self.connections.close()
            return
        with self._giving_back:
            was_given_back, self._is_given_back = self._is_given_back, True
        if not was_given_back:
            self._give_back(self.connections)

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
        """One request to one server. Errors as ``BlockingClient.request``."""
        return self.ask_server(
            address,
            code,
            lambda wait_s: self.connections.request(address, code, header, body, timeout_s=wait_s, accept=accept),
            timeout_s,
        )

    def call_all(
        self, address: str, code: int, headers: Sequence[Fields], accept: Collection[int] = SUCCESS_ALONE
    ) -> list[Command]:
        """Several requests to one server, as ``BlockingClient.request_all``."""
        return self.ask_server(
            address,
            code,
            lambda wait_s: self.connections.request_all(address, code, headers, timeout_s=wait_s, accept=accept),
        )

    def ask_server(self, address: str, code: int, ask: Callable[[float], T], timeout_s: float | None = None) -> T:
        """What ``ask`` returns, which takes the longest wait in seconds: every admin call comes through here."""
        wait_s = self.wait_s(address, timeout_s)
        if code not in READING_CODES:
            self.permit_change(code)
        if address in self.namesrv_addrs:
            self._before_namesrv()
        try:
            return ask(wait_s)
        except RequestTimeoutError as error:
            if code in READING_CODES and error.hint is not None:
                error.hint = error.hint.replace(OUTCOME_UNKNOWN, "It was a question: nothing was changed.")
            raise

    def permit_change(self, what: int | str) -> None:
        """Called before each change, with its code, and by a user of this client who makes one in another way, with
        words for it. UsageError if the client is read-only; errors of ``before_change``."""
        if self.read_only:
            said = what if isinstance(what, str) else f"request {request_label(what)}"
            raise UsageError(f"{said} could change something, and this client is read-only")
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


# --- configuration in requests and answers: lines ``key=value``, whose format differs between the two ----------------
#
# An answer lists the configuration raw (``MixAll.properties2String``, 5.5.0): a backslash is a backslash. A request is
# read as Java properties (``MixAll.string2Properties``): a backslash begins an escape, and bytes are Latin-1.

_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
# Compiled on use: every command imports this file, and few change a configuration.
_ESCAPED_IN_VALUE = r"[\t\n\r\f\\]|^ |[^\x20-\x7e]"
_ESCAPED_IN_KEY = r"[\t\n\r\f\\ =:#!]|[^\x20-\x7e]"


def config_values_untrusted(answer_body: bytes, *, with_own_defaults: bool = False) -> dict[str, str]:
    """The values of a configuration answer; lines that are not ``key=value`` are skipped. ProtocolError if not UTF-8.

    ``with_own_defaults``: also returns settings that only rmqserver has and that are at their defaults. rmqserver lists
    these as comments."""
    from rmqproto.java.java_properties import COMMENT  # 1 ms, only for calls about a configuration

    try:
        text = answer_body.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"configuration is not UTF-8: {error}") from None
    lines = text.split("\n")
    if with_own_defaults:
        lines = [line.removeprefix(COMMENT) for line in lines]
    pairs = (line.partition("=") for line in lines if not line.startswith(COMMENT))
    return {key.strip(): value.rstrip("\r") for key, equals, value in pairs if equals and key.strip()}


def config_request(values: Mapping[str, str]) -> bytes:
    """Body of a configuration request. Every value arrives as given, with its white space and backslashes."""
    lines = (
        f"{re.sub(_ESCAPED_IN_KEY, _escape, key)}={re.sub(_ESCAPED_IN_VALUE, _escape, value)}\n"
        for key, value in values.items()
    )
    return "".join(lines).encode("ascii")


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in " =:#!":
        return "\\" + character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
