"""What one operation sends to an API server: requests that are tried again, for how long, and sixteen at once.

Without the official client: importing it takes twice as long as a whole `kubectl get`, and its typed models cost most
of the time of a large list.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from gpuctl.kube.api_errors import ApiError, ConnectionFailed, api_error
from gpuctl.kube.backoff import jittered
from gpuctl.kube.channels import Channels
from gpuctl.kube.connection import Connection
from gpuctl.kube.response_streams import ResponseStream
from gpuctl.kube.thread_map import start_each
from gpuctl.kube.transport import READ_TIMEOUT, Response
from gpuctl.objects.api_resources import Object

CONCURRENCY = 16
PATIENCE = 6.0
"""Seconds for which a request that failed for a passing reason is tried again."""
# Six pauses, whatever their jitter, are within the patience.
_LONGEST_PAUSE = 1.0
LATE = 3.0
"""Seconds for which a request is tried when the time is over already: what was begun is to be finished or undone."""
_SHORTEST = 1.0
_NOTHING = 0.5
"""Seconds by which clocks may differ without being called different."""
_FEW = 8
"""Requests at once for which no pool of threads is set up."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ApiRequests:
    """The requests of one operation: what it was warned of, how patient it is, until when, and the threads it may use.

    ``patience`` is how many seconds passing failures are retried; a command raises it once it has begun to change
    things. ``deadline``, by the monotonic clock, is when nothing is tried or waited for any longer, but for
    :data:`LATE`. ``threads`` is how
    many requests it sends at once. ``alone`` tells that the connection was made for this session, and is closed with
    it. ``dry_run`` makes a dry run of every write: the API server checks it and stores nothing. Safe to use from
    several threads.
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
        self._dry_run = dry_run
        self._executor: ThreadPoolExecutor | None = None
        self._executor_lock = threading.Lock()
        self._closed = False

    @property
    def namespace(self) -> str:
        """The context's namespace."""
        return self.connection.namespace

    @property
    def server(self) -> str:
        """The API server's address."""
        return self.connection.server

    @property
    def context(self) -> str:
        """The name of the kubeconfig's context, "" in a cluster."""
        return self.connection.context

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """A block whose requests have so many seconds from now for all of them, whatever holds around it."""
        before = self.deadline
        self.count_from_now(seconds)
        try:
            yield
        finally:
            self.deadline = before

    def count_from_now(self, seconds: float) -> None:
        """Let the time of the block that :meth:`within` limits begin anew."""
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
        """Send a request and return the JSON of the answer.

        What may be repeated is, while ``patience`` lasts: everything after 429 (it was not acted on), reads and
        idempotent writes after 5xx and broken connections. All our writes are idempotent (a delete names a uid, an
        apply states fields) except creates, of which ``on_uncertain`` learns that one may have been acted on.

        :raises ApiError: the answer is no success.
        :raises ConnectionFailed: no answer.
        """
        if self._dry_run and method != "GET":
            query = {**(query or {}), "dryRun": "All"}
            if method == "DELETE":
                # The API server reads the options of a deletion from its body, where there is one.
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
                # Quota admission gives a create up after a few conflicts of its own (checkQuotas of the API server).
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
        """Whether what began at a time may be tried again after some seconds more."""
        # A server that has never answered is more likely absent than busy.
        patience = self.patience if self._transport.reached else min(self.patience, 1.0)
        then = time.monotonic() + wait
        return not self._closed and then <= start + patience and then < self._end(start)

    def _within(self, start: float) -> float:
        """How long an answer is waited for, of what began at a time."""
        return max(_SHORTEST, min(READ_TIMEOUT, self._end(start) - time.monotonic()))

    def _end(self, start: float) -> float:
        """Until when something is tried that began at a time."""
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
            raise self._strange(method, path)
        return value

    def clock_ahead(self) -> float:
        """How many seconds the API server's clock is ahead of ours, by what it dates an answer with; 0 where that is
        not more than the whole seconds of a date, and the way, leave open.

        :raises ConnectionFailed: no answer.
        """
        before = time.time()
        response = self._transport.send("GET", "/version", within=self._within(time.monotonic()))
        after = time.time()
        try:
            dated = parsedate_to_datetime(response.headers.get("Date") or "").timestamp()
        except (TypeError, ValueError):
            return 0.0
        # It was some time of that second, and of the time that the request took.
        ahead = dated + 0.5 - (before + after) / 2
        return ahead if abs(ahead) > 0.5 + (after - before) / 2 + _NOTHING else 0.0

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """What the server has as plain text, such as the log of a container. Asked once, not repeated.

        :raises ApiError: the answer is no success.
        :raises ConnectionFailed: no answer.
        """
        response = self._transport.send("GET", path, query, within=self._within(time.monotonic()))
        if response.status != 200:
            raise api_error(response.status, response.data, response.headers)
        return str(response.data.decode("utf-8", "replace"))

    def stream(self, path: str, query: Mapping[str, str] | None = None) -> ResponseStream:
        """The body of an answer as it comes. The request is sent, and its status known, when this returns.

        What fails for a passing reason before that is tried again, as :meth:`request` does.

        :raises ApiError: the answer is no success.
        :raises ConnectionFailed: no answer.
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
                    return ResponseStream(response, f"the answer to GET {path}")
                error = api_error(response.status, response.refusal(), response.headers)
                # 500 is what the API server makes of a node that does not answer.
                if not error.is_transient or error.status == 500:
                    raise error
            if not self._may_wait(start, 0.0):
                raise error
            time.sleep(0.5)

    def channels(self, path: str, query: Sequence[tuple[str, str]], protocols: tuple[str, ...]) -> Channels:
        """Open a WebSocket to a pod: for exec and port-forward.

        :raises ApiError: refused.
        :raises ConnectionFailed: no answer.
        """
        return self._transport.channels(path, query, protocols)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """``function`` of every item, sixteen at a time, results in order; the first exception is raised."""
        items = list(items)
        if len(items) <= 1:
            return [function(item) for item in items]
        return self.begin(function, items)()

    def begin(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Callable[[], list[Result]]:
        """Begin with ``function`` of every item; what is returned waits for the results, as :meth:`each` has them."""
        if len(items) <= min(_FEW, self._threads):
            return start_each(function, items)
        # Texts that they make are for whoever asked: a context can be entered by one thread at a time.
        contexts = [copy_context() for _ in items]
        results = self.executor.map(lambda context, item: context.run(function, item), contexts, items)
        return lambda: list(results)

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The threads that requests run in. Tasks in it must not wait for others in it."""
        with self._executor_lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, "gpuctl")
            return self._executor

    def close(self) -> None:
        """Let go of threads, and of the connection if it is this session's alone. What is being repeated fails."""
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        if self._alone:
            self.connection.close()

    def _strange(self, method: str, path: str) -> ConnectionFailed:
        text = f"answered {method} {path} with something that is not Kubernetes' JSON"
        return ConnectionFailed(
            f"{self.server} {text}",
            "check the server's address, and proxies in between",
            public=f"the Kubernetes API server {text}",
        )
