"""What one operation asks of an API server: JSON in, JSON out, sixteen requests at once, and errors that are sentences.

Without the official client: importing it takes twice as long as a whole `kubectl get`, and its typed models cost most
of the time of a large list.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gpuctl.backend.api_resources import Key, Object, Resource, key_of
from gpuctl.kube.api_errors import ApiError, ConnectionFailed, api_error
from gpuctl.kube.connection import Connection
from gpuctl.kube.pauses import jittered
from gpuctl.kube.streams import Stream, Watch, is_object
from gpuctl.kube.transport import READ_TIMEOUT, WATCH_TIMEOUT, Response

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from gpuctl.kube.channels import Channels

CONCURRENCY = 16
PATIENCE = 6.0
"""Seconds for which a request that failed for a passing reason is tried again."""
# Six pauses, whatever their jitter, are within the patience.
_LONGEST_PAUSE = 1.0
PAGE = 500
_LONGEST_REFUSAL = 1024 * 1024
_SHORTEST = 1.0
"""Seconds that an answer is waited for even when the time is over."""
MANAGER = "gpuctl"

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_METADATA = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Session:
    """One operation on a cluster: what it was warned of, how patient it is, until when, and the threads it may use.

    ``patience`` is how many seconds passing failures are retried; a command raises it once it has begun to change
    things. ``deadline``, by the monotonic clock, is when nothing is tried or waited for any longer. ``threads`` is how
    many requests it sends at once. ``alone`` tells that the connection was made for this session, and is closed with
    it. Safe to use from several threads.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        patience: float = PATIENCE,
        deadline: float | None = None,
        threads: int = CONCURRENCY,
        alone: bool = False,
    ) -> None:
        self.connection = connection
        self.patience = patience
        self.deadline = deadline
        self.warnings: dict[str, None] = {}
        self._transport = connection.transport
        self._threads = threads
        self._alone = alone
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

    def less_patient(self, patience: float) -> Session:
        """Another session of the same connection, for what is not worth more than these seconds."""
        return Session(self.connection, patience=min(self.patience, patience), deadline=self.deadline)

    def get(self, key: Key) -> Object | None:
        """The object, or None when it is absent (or its kind is)."""
        if not key.is_possible:
            return None
        try:
            found: Object = self.request("GET", key.path)
        except ApiError as error:
            if error.is_missing:
                return None
            raise
        return found

    def get_metadata(self, key: Key) -> Object | None:
        """As :meth:`get`, of the metadata alone: what the object contains does not leave the server."""
        if not key.is_possible:
            return None
        try:
            found: Object = self.request("GET", key.path, accept=_METADATA.format(""))
        except ApiError as error:
            if error.is_missing:
                return None
            raise
        return found

    def list_metadata(self, resource: Resource, namespace: str | None = None, *, labels: str = "") -> list[Object]:
        """The metadata of all objects of a resource."""
        query = {"labelSelector": labels} if labels else {}
        page = self.request("GET", resource.path(namespace), query=query, accept=_METADATA.format("List"))
        return list(page.get("items") or [])

    def list_objects(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """All objects of a resource, in pages, and the resource version of the list.

        Without ``namespace``, of all namespaces. Items get the ``apiVersion`` and ``kind`` that a list leaves out.
        """
        versions: list[str] = []
        items: list[Object] = []
        for page in self.pages(
            resource, namespace, labels=labels, fields=fields, on_version=versions.append, on_restart=items.clear
        ):
            items += page
        return items, versions[-1]

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        on_version: Callable[[str], None] = lambda version: None,
        on_restart: Callable[[], None] | None = None,
    ) -> Iterator[list[Object]]:
        """As :meth:`list_objects`, page by page; ``on_version`` hears of the list's resource version with each.

        A list that takes longer than the server remembers (410) begins again: ``on_restart`` is told, and all comes
        once more; without it nothing comes twice. The second time all is asked for at once, as client-go does.
        """
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields}
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        seen: set[str] = set()
        restarted = False
        while True:
            try:
                page = self.request("GET", resource.path(namespace), query=query)
            except ApiError as error:
                if error.status == 410 and "continue" in query and "limit" in query:
                    del query["continue"]
                    if restarted:
                        del query["limit"]
                    restarted = True
                    if on_restart is not None:
                        seen.clear()
                        on_restart()
                    continue
                raise
            listed, metadata = page.get("items") or [], page.get("metadata")
            if not (isinstance(listed, list) and isinstance(metadata, dict) and all(map(is_object, listed))):
                raise self._strange("GET", resource.path(namespace))
            items = [{**head, **item} for item in listed if item["metadata"]["uid"] not in seen]
            seen.update(item["metadata"]["uid"] for item in items)
            on_version(str(metadata.get("resourceVersion") or ""))
            yield items
            token = metadata.get("continue")
            if not token:
                return
            query["continue"] = token

    def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """POST an object. A create whose answer was lost is looked up before it is called a failure."""
        key = key_of(obj)
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        uncertain = False
        path = key.resource.path(key.namespace or None)

        def lost() -> None:
            nonlocal uncertain
            uncertain = True

        try:
            created: Object = self.request("POST", path, query=query, body=obj, on_uncertain=lost)
        except ApiError as error:
            if error.exists_already and uncertain:
                live = self.get(key)
                wanted = obj["metadata"].get("annotations") or {}
                have = (live or {"metadata": {}})["metadata"].get("annotations") or {}
                if live is not None and wanted.items() <= have.items():
                    return live
            raise
        return created

    def apply(
        self, obj: Object, *, manager: str = MANAGER, force: bool = False, dry_run: bool = False
    ) -> tuple[Object, bool]:
        """Server-side apply: the object as it is then, and whether it was created by this."""
        query = {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        status: list[int] = []
        result = self.request(
            "PATCH", key_of(obj).path, query=query, body=obj, content_type=APPLY_PATCH, on_status=status.append
        )
        return result, status[-1] == 201

    def patch(self, key: Key, patch: Object, *, manager: str = MANAGER, dry_run: bool = False) -> Object:
        """JSON merge patch."""
        return self.patch_at(key.path, patch, manager=manager, dry_run=dry_run)

    def patch_at(self, path: str, patch: Object, *, manager: str = MANAGER, dry_run: bool = False) -> Object:
        """JSON merge patch of an object whose kind is not among gpuctl's own."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        result: Object = self.request("PATCH", path, query=query, body=patch, content_type=MERGE_PATCH)
        return result

    def replace(self, obj: Object, *, dry_run: bool = False) -> Object:
        """PUT an object; with its ``resourceVersion`` a change in between is a conflict."""
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        result: Object = self.request("PUT", key_of(obj).path, query=query, body=obj)
        return result

    def delete(
        self, key: Key, uid: str, *, version: str | None = None, grace: int | None = None, foreground: bool = True
    ) -> bool:
        """Delete one incarnation of an object; False when that one is gone already.

        The precondition is on the uid alone, unless a ``version`` is given: that one moves with every status.
        """
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, **({"resourceVersion": version} if version is not None else {})},
            "propagationPolicy": "Foreground" if foreground else "Background",
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self.request("DELETE", key.path, body=options)
        except ApiError as error:
            if error.is_missing or error.is_conflict:
                live = self.get(key)
                if live is None or live["metadata"]["uid"] != uid:
                    return False
            raise
        return True

    def watch(
        self, resource: Resource, namespace: str | None, version: str, *, labels: str = "", fields: str = ""
    ) -> Watch:
        """Events ``{"type", "object"}`` since a list's version, until the server or the network ends them.

        :raises ApiError: refused.
        :raises ConnectionFailed: no answer.
        """
        query = {
            "watch": "1",
            "resourceVersion": version,
            "labelSelector": labels,
            "fieldSelector": fields,
            # Of many watches that began together not all are to begin again together.
            "timeoutSeconds": str(int(WATCH_TIMEOUT * jittered(2 / 3))),
            "allowWatchBookmarks": "true",
        }
        response = self._transport.open(resource.path(namespace), query)
        if response.status != 200:
            try:
                refused = response.read(_LONGEST_REFUSAL)
            except (OSError, ValueError):
                refused = b""
            finally:
                response.close()
            raise api_error(response.status, refused, response.headers)
        return Watch(response, f"the watch on {resource.plural}")

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """What the server has as plain text, such as the log of a container. Asked once, not repeated.

        :raises ApiError: the answer is no success.
        :raises ConnectionFailed: no answer.
        """
        response = self._transport.send("GET", path, query, within=self._within())
        if response.status != 200:
            raise api_error(response.status, response.data, response.headers)
        return str(response.data.decode("utf-8", "replace"))

    def stream(self, path: str, query: Mapping[str, str] | None = None) -> Stream:
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
                    return Stream(response, f"the answer to GET {path}")
                error = api_error(response.status, response.read(_LONGEST_REFUSAL), response.headers)
                response.close()
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
        return list(self.executor.map(function, items))

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The threads that requests run in. Tasks in it must not wait for others in it."""
        with self._executor_lock:
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor

                self._executor = ThreadPoolExecutor(self._threads, "gpuctl")
            return self._executor

    def close(self) -> None:
        """Let go of threads, and of the connection if it is this session's alone. What is being repeated fails."""
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        if self._alone:
            self.connection.close()

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
        start = time.monotonic()
        pause = 0.1
        while True:
            error: ApiError | ConnectionFailed
            try:
                response = self._transport.send(
                    method, path, query, body, content_type, accept=accept, within=self._within()
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
        return not self._closed and then <= start + patience and (self.deadline is None or then < self.deadline)

    def _within(self) -> float:
        """How long an answer is waited for."""
        if self.deadline is None:
            return READ_TIMEOUT
        return max(_SHORTEST, min(READ_TIMEOUT, self.deadline - time.monotonic()))

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

    def _strange(self, method: str, path: str) -> ConnectionFailed:
        return ConnectionFailed(
            f"{self.server} answered {method} {path} with something that is not Kubernetes' JSON",
            "check the server's address, and proxies in between",
        )
