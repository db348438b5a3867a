"""One member of an etcd, by its client URL."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from urllib.parse import urlsplit

from rmqproto.errors import UsageError
from rmqproto.hosts import not_a_port
from rmqserver.controller.quorum.etcd_access import EtcdAccess

ANSWER_MAX_BYTES = 64 << 20


class EtcdMember:
    def __init__(self, url: str, access: EtcdAccess):
        """Raises UsageError for an invalid URL, and for files of ``access`` that cannot be used."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UsageError(f"{url}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise UsageError(f"{url}: must be http://HOST:2379 or https://HOST:2379")
        if port == 0:
            raise UsageError(f"{url}: {not_a_port('0')}")
        if parts.username is not None:
            raise UsageError(
                f"{parts.hostname}: a user of etcd stands in settings, not in a URL",
                hint="--set etcdUserName=NAME --set etcdPasswordPath=FILE",
            )
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, port or 2379
        self._context = access.context() if parts.scheme == "https" else None

    def post(self, path: str, body: bytes, token: str, timeout_s: float) -> tuple[int, bytes]:
        """Status and body of the answer. Blocks. Raises OSError or HTTPException if there is no answer."""
        return self._asked(path, body, token, timeout_s, _whole)

    def watch(self, path: str, body: bytes, token: str, timeout_s: float) -> tuple[int, bytes]:
        """Like ``post``, but returns the first line of an endless answer that says more than that the watch was
        created."""
        return self._asked(path, body, token, timeout_s, _first_news)

    def _asked(
        self, path: str, body: bytes, token: str, timeout_s: float, read: Callable[[http.client.HTTPResponse], bytes]
    ) -> tuple[int, bytes]:
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)
            if self._context is not None
            else http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        )
        headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, read(answer)
        finally:
            connection.close()


def _whole(answer: http.client.HTTPResponse) -> bytes:
    data = answer.read(ANSWER_MAX_BYTES)
    if not answer.isclosed() and answer.read(1):
        raise http.client.HTTPException(f"more than {ANSWER_MAX_BYTES} bytes")
    return data


def _first_news(answer: http.client.HTTPResponse) -> bytes:
    while True:
        line = answer.readline(ANSWER_MAX_BYTES)
        if b'"created":true' not in line or b'"canceled":true' in line:
            return line
