"""Operations on API objects: get, list, create, apply, patch, replace, delete and watch, in JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gpuctl.kube.api_errors import ApiError, api_error
from gpuctl.kube.api_requests import ApiRequests
from gpuctl.kube.backoff import jittered
from gpuctl.kube.response_streams import WatchStream, is_object
from gpuctl.kube.transport import WATCH_TIMEOUT
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, Object, Resource, annotations_of, key_of

MANAGER = "gpuctl"

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_METADATA = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


class Session(ApiRequests):
    """The objects that one operation reads and writes. Retries and deadlines are those of :class:`ApiRequests`.

    ``caller``: name of the user on whose behalf it works; None: not determined yet. ``page_size``: number of objects
    read at a time; the objects of a page are in memory together.
    """

    caller: str | None = None
    page_size = 500

    def with_time_limit(self, patience: float) -> Session:
        """Return another session of the same connection that gives up after this number of seconds."""
        deadline = min(self.deadline or float("inf"), time.monotonic() + patience)
        return Session(self.connection, patience=min(self.patience, patience), deadline=deadline)

    def shows(self, obj: Object) -> bool:
        """Return True if who follows a list may see an object of it, which a session with limits decides."""
        return True

    def get(self, key: Key) -> Object | None:
        """Return an object; None if it, or its kind, does not exist."""
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
        """Return an object's metadata, see :meth:`get`. The rest of the object does not leave the server."""
        return self.metadata_at(key.path) if key.is_possible else None

    def metadata_at(self, path: str) -> Object | None:
        """Return the metadata of an object of any kind, by its path, see :meth:`get_metadata`."""
        try:
            found: Object = self.request("GET", path, accept=_METADATA.format(""))
        except ApiError as error:
            if error.is_missing:
                return None
            raise
        return found

    def list_metadata(self, resource: Resource, namespace: str | None = None, *, labels: str = "") -> list[Object]:
        """Return the metadata of all objects of a resource."""
        query = {"labelSelector": labels} if labels else {}
        page = self.request("GET", resource.path(namespace), query=query, accept=_METADATA.format("List"))
        return list(page.get("items") or [])

    def list_objects(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """Return all objects of a resource, read in pages, and the resource version of the list.

        Without ``namespace``, of all namespaces. Items get the ``apiVersion`` and ``kind`` that a list omits.
        """
        versions: list[str] = []
        items: list[Object] = []
        for page in self.pages(
            resource, namespace, labels=labels, fields=fields, on_version=versions.append, on_restart=items.clear
        ):
            items += page
        return items, versions[-1]

    def names(self, resource: Resource) -> list[str]:
        """Return the names of all objects of a resource, for suggestions; [] if they may not be listed."""
        try:
            return [item["metadata"]["name"] for item in self.list_objects(resource)[0]]
        except ApiError:
            return []

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
        """Yield the objects of a list, page by page, see :meth:`list_objects`. ``on_version`` gets the list's resource
        version with each page.

        If the continue token expires (410), the list starts again: ``on_restart`` is called and all objects are yielded
        once more; without ``on_restart`` objects that were yielded already are skipped. If it expires again, the list
        is read without pages, as in client-go.
        """
        query = {"limit": str(self.page_size), "labelSelector": labels, "fieldSelector": fields}
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
                raise self._not_json_error("GET", resource.path(namespace))
            items = [{**head, **item} for item in listed if item["metadata"]["uid"] not in seen]
            seen.update(item["metadata"]["uid"] for item in items)
            on_version(str(metadata.get("resourceVersion") or ""))
            yield items
            token = metadata.get("continue")
            if not token:
                return
            query["continue"] = token

    def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """POST an object. If the response to a create was lost, the object is looked up before the create counts as
        failed.
        """
        key = key_of(obj)

        def created(error: ApiError) -> Object | None:
            live = self.get(key) if error.exists_already else None
            is_own = live is not None and annotations_of(obj).items() <= annotations_of(live).items()
            return live if is_own else None

        path = key.resource.path(key.namespace or None)
        return self._write("POST", path, _write_query(MANAGER, dry_run), obj, "application/json", created)

    def apply(
        self, obj: Object, *, manager: str = MANAGER, force: bool = False, dry_run: bool = False
    ) -> tuple[Object, bool]:
        """Send a server-side apply. Return the resulting object, and True if it was created."""
        query = {**_write_query(manager, dry_run), "force": "true" if force else "false"}
        status: list[int] = []
        result = self._write("PATCH", key_of(obj).path, query, obj, APPLY_PATCH, on_status=status.append)
        return result, 201 in status

    def patch(self, key: Key, patch: Object, *, manager: str = MANAGER, dry_run: bool = False) -> Object:
        """Send a JSON merge patch and return the resulting object."""
        return self.patch_at(key.path, patch, manager=manager, dry_run=dry_run)

    def patch_at(self, path: str, patch: Object, *, manager: str = MANAGER, dry_run: bool = False) -> Object:
        """Send a JSON merge patch to an object of any kind, by its path."""
        return self._write("PATCH", path, _write_query(manager, dry_run), patch, MERGE_PATCH)

    def replace(self, obj: Object, *, dry_run: bool = False) -> Object:
        """PUT an object. If it has a ``resourceVersion``, a change since then is a conflict."""
        return self._write("PUT", key_of(obj).path, _write_query(MANAGER, dry_run), obj, "application/json")

    def _write(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Object,
        content_type: str,
        written: Callable[[ApiError], Object | None] | None = None,
        on_status: Callable[[int], None] | None = None,
    ) -> Object:
        """Send a write. If a response was lost, the next attempt may fail because the first one has succeeded: then the
        write counts as done.

        :param written: takes the error of an attempt after a lost response, and returns the object if the lost attempt
            has written it. Default: after a conflict, the object if it has what was sent.
        """

        def has_body(error: ApiError) -> Object | None:
            live: Object | None = self.request("GET", path) if error.is_conflict else None
            return live if live is not None and _has_what_was_sent(live, body) else None

        uncertain = False

        def lost() -> None:
            nonlocal uncertain
            uncertain = True

        try:
            result: Object = self.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                on_status=on_status,
                on_uncertain=lost,
            )
        except ApiError as error:
            found = (written or has_body)(error) if uncertain else None
            if found is None:
                raise
            return found
        return result

    def delete(
        self, key: Key, uid: str, *, version: str | None = None, grace: int | None = None, foreground: bool = True
    ) -> bool:
        """Delete one incarnation of an object. Return False if that one is gone already.

        The precondition is the uid, and the resource version if ``version`` is given; it changes with every status
        update.
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
    ) -> WatchStream:
        """Return the watch events ``{"type", "object"}`` since a list's version, until the server or the network ends
        them.

        :raises ApiError: the API server refuses.
        :raises ConnectionFailed: no response.
        """
        query = {
            "watch": "1",
            "resourceVersion": version,
            "labelSelector": labels,
            "fieldSelector": fields,
            # Jitter, so that watches that started together do not restart together.
            "timeoutSeconds": str(int(WATCH_TIMEOUT * jittered(2 / 3))),
            "allowWatchBookmarks": "true",
        }
        response = self._transport.open(resource.path(namespace), query)
        if response.status != 200:
            raise api_error(response.status, response.refusal(), response.headers)
        return WatchStream(response, say("the watch on {resources}", resources=resource.plural))


def _write_query(manager: str, dry_run: bool) -> dict[str, str]:
    """Return the query of a write. Unknown fields are errors."""
    return {"fieldManager": manager, "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}


def _has_what_was_sent(live: Object, body: Object) -> bool:
    """Return True if a live object has the values of a written object or patch, apart from its status."""
    metadata = body.get("metadata") or {}
    sent = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    sent |= {"metadata": {part: metadata[part] for part in ("labels", "annotations") if part in metadata}}
    is_same = metadata.get("uid") in (None, live["metadata"]["uid"])
    return is_same and any(sent.values()) and _contains(live, sent)


def _contains(live: object, sent: object) -> bool:
    if isinstance(sent, dict) and isinstance(live, dict):
        return all(_contains(live.get(name), value) for name, value in sent.items())
    if isinstance(sent, list) and isinstance(live, list):
        return len(live) == len(sent) and all(map(_contains, live, sent))
    # An empty map or list of a patch may be absent.
    return live == sent or (not sent and not live)
