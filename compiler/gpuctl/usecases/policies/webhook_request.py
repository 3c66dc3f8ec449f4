"""Report actions to a webhook: a POST of JSON."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

from urllib3 import PoolManager, ProxyManager
from urllib3.exceptions import HTTPError
from urllib3.util import Url, make_headers, parse_url

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.http_client import cause_of, failure_text
from gpuctl.kube.proxies import proxy_for

WITHIN = 15.0
"""Seconds for a whole request, from the look-up of the name to the end of the answer."""
_LARGEST = 64 * 1024


def post(address: str, value: Mapping[str, Any]) -> bytes:
    """POST a value. Return the body of the answer, at most 64 KiB; less if it does not end in time.

    The address may contain user and password. Redirects are not followed.

    :raises ClusterError: the request failed; the message does not contain secret parts of the address.
    """
    try:
        url = parse_url(address)
    except HTTPError:
        raise ClusterError("the address of the webhook is not a URL") from None
    # For many webhooks the path is the secret.
    name = f"{url.scheme}://{url.netloc}"
    logging.getLogger("urllib3.connection").addFilter(_has_no_address)
    request = _Request(url, name, json.dumps(value, ensure_ascii=False).encode())
    request.start()
    request.join(WITHIN)
    request.abort()
    if request.status is None:
        error = request.error
        reason = f"within {WITHIN:g} s" if error is None else f"({_reason(error)})"
        raise ClusterError(f"the webhook at {name} does not answer {reason}") from None
    if not 200 <= request.status < 300:
        raise ClusterError(f"the webhook at {name} rejected the message: status {request.status}")
    return request.body


class _Request(threading.Thread):
    """A request in a thread of its own, which :meth:`abort` ends in any state.

    A timeout of urllib3 limits each read, so that a server which sends one byte at a time is never late.

    ``status``: None before the headers of the answer have arrived. ``error``: why the request failed.
    """

    def __init__(self, url: Url, name: str, body: bytes) -> None:
        super().__init__(daemon=True, name="gpuctl-webhook")
        self.status: int | None = None
        self.body = b""
        self.error: Exception | None = None
        self._url, self._name, self._sent = url, name, body
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._aborted = False

    def run(self) -> None:
        try:
            self._exchange()
        except Exception as error:
            # An uncaught error would be printed with the address.
            self.error = error
        finally:
            with self._lock:
                if self._line is not None:
                    self._line.close()
                    self._line = None

    def abort(self) -> None:
        """End the request, if it has not ended. Nothing is sent after that."""
        with self._lock:
            self._aborted = True
            if self._line is not None:
                with suppress(OSError):
                    self._line.shutdown(socket.SHUT_RDWR)

    def _exchange(self) -> None:
        headers = {"Content-Type": "application/json"}
        if self._url.auth:
            headers |= make_headers(basic_auth=self._url.auth)
        with self._pool() as pool:
            answer = pool.request(
                "POST",
                f"{self._name}{self._url.request_uri}",
                body=self._sent,
                headers=headers,
                redirect=False,
                timeout=WITHIN,
                preload_content=False,
            )
            with closing(answer):
                with self._lock:
                    # An abort ends the headers where they are.
                    if not self._aborted:
                        self.status = answer.status
                while len(self.body) < _LARGEST and (part := answer.read1(4096)):
                    self.body += part

    def _pool(self) -> PoolManager:
        proxy = proxy_for(self._name, "")
        pool = (
            PoolManager(num_pools=1, retries=False)
            if proxy is None
            else ProxyManager(proxy.url, num_pools=1, retries=False, proxy_headers=dict(proxy.headers))
        )
        request, connections = self, pool.connection_from_url(self._name)

        class Connection(connections.ConnectionCls):  # type: ignore[name-defined, misc]
            def _new_conn(self) -> socket.socket:
                line: socket.socket = super()._new_conn()
                request._hold(line)
                return line

        connections.ConnectionCls = Connection
        return pool

    def _hold(self, line: socket.socket) -> None:
        """Keep a second handle of the connection: TLS takes over the first one."""
        with self._lock:
            if self._aborted:
                line.close()
                raise TimeoutError("the request was ended before it was sent")
            self._line = line.dup()


def _reason(error: Exception) -> str:
    """Return the reason of a failure; other errors than those of connections may quote the address."""
    return failure_text(error) if isinstance(cause_of(error), OSError) else type(error).__name__


def _has_no_address(record: logging.LogRecord) -> bool:
    """Return False for urllib3's warning about the headers of an answer, which contains the whole address."""
    return not str(record.msg).startswith("Failed to parse headers")
