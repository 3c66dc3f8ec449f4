"""The requests of one operation: retries, deadlines and concurrency.

The official client is not used: importing it takes twice as long as a whole `kubectl get`, and its typed models take
most of the time of a large list.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from gpuctl.kube.api_errors import ApiError, ConnectionFailed, api_error
from gpuctl.kube.backoff import jittered
from gpuctl.kube.channels import Channels
from gpuctl.kube.connection import Connection
from gpuctl.kube.response_streams import ResponseStream
from gpuctl.kube.transport import READ_TIMEOUT, Response
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object

CONCURRENCY = 16
PATIENCE = 6.0
"""Seconds for which a request is retried after transient failures."""
# Six pauses fit into the patience, whatever their jitter.
_LONGEST_PAUSE = 1.0
LATE = 3.0
"""Seconds for which a request is still tried after the deadline, so that a started change is finished or undone."""
_SHORTEST = 1.0
_FEW = 8
"""Up to this number of concurrent requests have threads of their own, so that a task of the executor may wait for them.
"""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ApiRequests:
    """The requests of one operation, with its warnings, retry limits, deadline and threads. Safe to use from several
    threads.

    ``patience``: seconds for which transient failures are retried; a command raises it when it begins to change
    objects. ``deadline``: by the monotonic clock; no request is tried or waited for after it, except for :data:`LATE`
    seconds. ``threads``: maximum number of concurrent requests. ``alone``: the connection belongs to this session and
    is closed with it. ``dry_run``: send every write as a dry run, which the API server checks without storing anything.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        patience: float = PATIENCE,
        deadline: float | None = None,
        threads: int = CONCURRENCY,
        alone: bool = False,
        dry_run: bool = False,
    ) -> None:
        self.connection = connection
        self.patience = patience
        self.deadline = deadline
        self.warnings: dict[str, None] = {}
        self._transport = connection.transport
        self._threads = threads
        self._alone = alone
        self.dry_run = dry_run
        self._executor: ThreadPoolExecutor | None = None
        self._executor_lock = threading.Lock()
        self._closed = False

    @property
    def namespace(self) -> str:
        """The namespace of the context."""
        return self.connection.namespace

    @property
    def server(self) -> str:
        """The API server's address."""
        return self.connection.server

    @property
    def context(self) -> str:
        """The name of the kubeconfig's context; "" for a pod's service account."""
        return self.connection.context

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Give the requests of the block together this many seconds, whatever the deadline of an outer block."""
        before = self.deadline
        self.count_from_now(seconds)
        try:
            yield
        finally:
            self.deadline = before

    def count_from_now(self, seconds: float) -> None:
        """Restart the time limit of the current :meth:`within` block."""
        self.deadline = time.monotonic() + seconds

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
        on_status: Callable[[int], None] | None = None,
        on_uncertain: Callable[[], None] | None = None,
    ) -> Any:
        """Send a request and return the JSON of the response.

        While ``patience`` lasts, a request of any method is retried after 429, 5xx and broken connections, with growing
        pauses, or those of ``Retry-After``. Except for 429 the server may have acted on it. That does not matter for
        writes that are idempotent (a delete names a uid, an apply states fields). For the others, creates and writes of
        one version, callers pass ``on_uncertain``, which is called in this case: see
        :meth:`gpuctl.kube.session.Session.create`.

        :raises ApiError: the response is an error.
        :raises ConnectionFailed: no response.
        """
        if self.dry_run and method != "GET":
            query = {**(query or {}), "dryRun": "All"}
            if method == "DELETE":
                # The API server reads the options of a deletion from the body if there is one.
                body = {**(body or {}), "dryRun": ["All"]}
        start = time.monotonic()
        pause = 0.1
        while True:
            error: ApiError | ConnectionFailed
            try:
                response = self._transport.send(
                    method, path, query, body, content_type, accept=accept, within=self._within(start)
                )
            except ConnectionFailed as failure:
                error = failure
                if failure.sent and on_uncertain is not None:
                    on_uncertain()
            else:
                status: int = response.status
                if 200 <= status < 300:
                    if on_status is not None:
                        on_status(status)
                    return self._decoded(response, method, path)
                error = api_error(status, response.data, response.headers)
                # Quota admission rejects a create after a few conflicts of its own (checkQuotas of the API server).
                busy = method == "POST" and error.status == 409 and error.reason == "Conflict"
                if not (error.is_transient or busy) or (
                    status == 500 and error.reason not in ("", "InternalError", "Timeout")
                ):
                    raise error
                if status != 429 and on_uncertain is not None:
                    on_uncertain()
            wait = jittered(pause)
            if isinstance(error, ApiError) and error.retry_after is not None:
                wait = max(wait, error.retry_after)
            if not self._may_wait(start, wait):
                raise error
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _may_wait(self, start: float, wait: float) -> bool:
        """Return True if a request that started at ``start`` may be retried after ``wait`` seconds."""
        # A server that has never responded is more likely absent than busy.
        patience = self.patience if self._transport.reached else min(self.patience, 1.0)
        then = time.monotonic() + wait
        return not self._closed and then <= start + patience and then < self._end(start)

    def _within(self, start: float) -> float:
        """Return the read timeout for a request that started at ``start``, seconds."""
        return max(_SHORTEST, min(READ_TIMEOUT, self._end(start) - time.monotonic()))

    def _end(self, start: float) -> float:
        """Return the deadline of a request that started at ``start``, by the monotonic clock."""
        return float("inf") if self.deadline is None else max(self.deadline, start + LATE)

    def _decoded(self, response: Response, method: str, path: str) -> Any:
        for warning in response.headers.getlist("Warning"):
            # `299 - "text"` (RFC 7234, as the API server writes it).
            self.warnings[warning.split(" ", 2)[-1].strip('"').replace('\\"', '"')] = None
        try:
            value = json.loads(response.data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self._not_json_error(method, path)
        return value

    def server_time(self) -> float:
        """Return the time by the API server's clock, seconds since the epoch: it also set the times in its objects.

        A request is sent only if the connection has had no response yet.

        :raises ConnectionFailed: no response.
        """
        ahead = self._transport.clock_ahead()
        # In this order: the local time is read after the request.
        return (self.clock_ahead() if ahead is None else ahead) + time.time()

    @property
    def known_clock_ahead(self) -> float:
        """The seconds by which the API server's clock is ahead of the local one, from the newest response; 0 before the
        first one. No request is sent.
        """
        return self._transport.clock_ahead() or 0.0

    def clock_ahead(self) -> float:
        """Return the seconds by which the API server's clock is ahead of the local one now; 0 if it is unknown. See
        :meth:`gpuctl.kube.transport.Transport.clock_ahead`.

        :raises ConnectionFailed: no response.
        """
        self._transport.send("GET", "/version", within=self._within(time.monotonic()))
        return self.known_clock_ahead

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """Return a plain-text response, such as the log of a container. The request is not retried.

        :raises ApiError: the response is an error.
        :raises ConnectionFailed: no response.
        """
        response = self._transport.send("GET", path, query, within=self._within(time.monotonic()))
        if response.status != 200:
            raise api_error(response.status, response.data, response.headers)
        return str(response.data.decode("utf-8", "replace"))

    def stream(self, path: str, query: Mapping[str, str] | None = None) -> ResponseStream:
        """Return the body of a response as a stream. The request has been sent, and its status is 200, when this
        returns.

        Transient failures before that are retried every half second while ``patience`` lasts, except for 500: the node
        does not respond.

        :raises ApiError: the response is an error.
        :raises ConnectionFailed: no response.
        """
        start = time.monotonic()
        while True:
            error: ApiError | ConnectionFailed
            try:
                response = self._transport.open(path, query)
            except ConnectionFailed as failure:
                error = failure
            else:
                if response.status == 200:
                    return ResponseStream(response, say("the answer to GET {path}", path=path))
                error = api_error(response.status, response.refusal(), response.headers)
                if not error.is_transient or error.status == 500:
                    raise error
            if not self._may_wait(start, 0.0):
                raise error
            time.sleep(0.5)

    def channels(self, path: str, query: Sequence[tuple[str, str]], protocols: tuple[str, ...]) -> Channels:
        """Open a WebSocket to a pod, for exec and port-forward.

        :raises ApiError: the API server refuses.
        :raises ConnectionFailed: no response.
        """
        return self._transport.channels(path, query, protocols)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Call ``function`` for every item, sixteen at a time, and return the results in order. The first exception is
        raised.
        """
        items = list(items)
        if len(items) <= 1:
            return [function(item) for item in items]
        # Messages depend on context variables (gpuctl.hints); a context can be entered by one thread at a time.
        calls = [partial(copy_context().run, function, item) for item in items]
        if len(items) > min(_FEW, self._threads):
            return list(self.executor.map(partial.__call__, calls))
        own = ThreadPoolExecutor(len(items), "gpuctl")
        try:
            return list(own.map(partial.__call__, calls))
        finally:
            own.shutdown(wait=False, cancel_futures=True)

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The thread pool of the requests. A task in it must not wait for another task in it."""
        with self._executor_lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, "gpuctl")
            return self._executor

    def close(self) -> None:
        """Release the threads, and close the connection if it belongs to this session. Requests that are being retried
        fail.
        """
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        if self._alone:
            self.connection.close()

    def _not_json_error(self, method: str, path: str) -> ConnectionFailed:
        text = f"answered {method} {path} with something that is not Kubernetes' JSON"
        return ConnectionFailed(
            f"{self.server} {text}",
            "check the server's address, and proxies in between",
            public=say(
                "the Kubernetes API server answered {method} {path} with something that is not Kubernetes' JSON",
                method=method,
                path=path,
            ),
        )
