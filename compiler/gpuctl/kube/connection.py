"""A connection to an API server: JSON in, JSON out, sixteen requests at once, and errors that are sentences.

Without the official client: importing it takes twice as long as a whole `kubectl get`, and its typed models cost most
of the time of a large list.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from gpuctl.backend.api_resources import Key, Object, Resource, key_of
from gpuctl.kube.api_errors import ApiError, ConnectionFailed, api_error
from gpuctl.kube.reasons import reason_of
from gpuctl.kube.streams import Stream
from gpuctl.kube.transport import WATCH_TIMEOUT, Response, ServerAccess, Transport

if TYPE_CHECKING:
    from gpuctl.kube.channels import Channels

CONCURRENCY = 16
PATIENCE = 6.0
"""Seconds for which a request that failed for a passing reason is tried again."""
# Six pauses, whatever their jitter, are within the patience.
_LONGEST_PAUSE = 1.0
PAGE = 500
_LONGEST_REFUSAL = 1024 * 1024
_LONGEST_EVENT = 64 * 1024 * 1024
MANAGER = "gpuctl"

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_METADATA = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Connection:
    """A cluster as one user reaches it.

    ``namespace`` is the context's, ``server`` the address, ``context`` the name of the kubeconfig's context ("" in a
    cluster). ``patience`` is how many seconds passing failures are retried; a command raises it once it has begun to
    change things. Safe to use from several threads. :func:`gpuctl.kube.configuration.connect` makes one.
    """

    def __init__(self, access: ServerAccess, namespace: str, context: str) -> None:
        self._transport = Transport(access)
        self.server = self._transport.server
        self.namespace = namespace
        self.context = context
        self.patience = PATIENCE
        self.warnings: dict[str, None] = {}
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def get(self, key: Key) -> Object | None:
        """The object, or None when it is absent (or its kind is)."""
        try:
            found: Object = self.request("GET", key.path)
        except ApiError as error:
            if error.is_missing:
                return None
            raise
        return found

    def get_metadata(self, key: Key) -> Object | None:
        """As :meth:`get`, of the metadata alone: what the object contains does not leave the server."""
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
            if not (isinstance(listed, list) and isinstance(metadata, dict) and all(map(_is_object, listed))):
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

    def watch(self, resource: Resource, namespace: str | None, version: str, *, labels: str = "") -> Iterator[Object]:
        """Events ``{"type", "object"}`` since a list's version, until the server or the network ends them."""
        query = {
            "watch": "1",
            "resourceVersion": version,
            "labelSelector": labels,
            "timeoutSeconds": str(WATCH_TIMEOUT),
            "allowWatchBookmarks": "true",
        }
        response = self._transport.open(resource.path(namespace), query)
        try:
            if response.status != 200:
                raise api_error(response.status, response.read(_LONGEST_REFUSAL), response.headers)
            buffer = b""
            for chunk in response.portions():
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event(line)
                if len(buffer) > _LONGEST_EVENT:
                    raise ValueError("an event has no end")
        except (OSError, ValueError, RecursionError) as error:
            raise ConnectionFailed(f"the watch on {resource.plural} ended: {reason_of(error)}") from None
        finally:
            response.close()

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """What the server has as plain text, such as the log of a container. Asked once, not repeated.

        :raises ApiError: the answer is no success.
        :raises ConnectionFailed: no answer.
        """
        response = self._transport.send("GET", path, query)
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
            patience = self.patience if self._transport.reached else min(self.patience, 1.0)
            if self._closed or time.monotonic() > start + patience:
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
        if self._executor is None:
            self._executor = ThreadPoolExecutor(CONCURRENCY, "gpuctl")
        return self._executor

    def close(self) -> None:
        """Let go of threads and sockets. Requests that are being repeated fail instead."""
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._transport.close()

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
                response = self._transport.send(method, path, query, body, content_type, accept=accept)
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
            wait = pause * (0.5 + random.random())  # noqa: S311 - jitter, not a secret
            if isinstance(error, ApiError) and error.retry_after is not None:
                wait = max(wait, error.retry_after)
            # A server that has never answered is more likely absent than busy.
            patience = self.patience if self._transport.reached else min(self.patience, 1.0)
            if self._closed or time.monotonic() + wait > start + patience:
                raise error
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)

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


def _is_object(value: Any) -> bool:
    """Whether it has what all objects have: without, it is no API server that answers."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and all(isinstance(metadata.get(name), str) for name in ("name", "uid"))


def _event(line: bytes) -> Object:
    """An event of a watch: of an object, of how far the watch is (BOOKMARK), or that it cannot go on (ERROR)."""
    value = json.loads(line)
    of_type = value.get("type") if isinstance(value, dict) else None
    obj = value.get("object") if isinstance(of_type, str) else None
    if of_type != "ERROR":
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
            raise ValueError("what came is no event")
        if of_type != "BOOKMARK" and not _is_object(obj):
            raise ValueError("what came is no event")
    return dict(value)
