"""Watch job rows: yield all of them, then those that change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import WORKLOADS, Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.scheduled_jobs import is_part_of_job
from gpuctl.reading.jobs.job_objects import Identity, add_prerequisites, add_refusals, group_by_job
from gpuctl.reading.jobs.job_rows import JobTableRow, platform_keys, rows_of_jobs, with_claimed_gpus

_QUIET = 0.3
"""Seconds without an event before changed rows are shown (debounce): the start of a pod is several events."""
_LONGEST = 1.0
"""Maximum seconds before changed rows are shown while events keep coming."""


def watch_rows(
    scope: Scope,
    settings: Settings,
    keys: Records,
    selector: str = "",
    *,
    by_job: bool = False,
    pods_only: bool = False,
) -> Iterator[list[JobTableRow]]:
    """Yield all rows, then repeatedly the new and changed rows, until the caller stops.

    A deleted row is not reported; its last status is Terminating.
    """
    names = platform_keys(settings, keys)
    wanted = ",".join(part for part in (keys.job_type, selector) if part)
    namespace = scope.watch_namespace("Pod")
    reflector = Reflector(scope.session, [WatchedList(kind, namespace, wanted) for kind in (*WORKLOADS, "Pod")])
    reflector.start()
    objects: dict[Key, Object] = {}
    shown: dict[tuple[Identity, str], JobTableRow] = {}
    unread = len(WORKLOADS) + 1
    changed: float | None = None
    try:
        for event in reflector.events(_QUIET):
            if event is not None:
                changed = changed or time.monotonic()
                if event.type == "LISTED":
                    unread -= 1
                else:
                    _note(objects, event)
            if unread or changed is None or (event is not None and time.monotonic() < changed + _LONGEST):
                continue
            changed = None
            mains = [obj for key, obj in objects.items() if key.kind != "Pod"]
            jobs = group_by_job(mains, (obj for key, obj in objects.items() if key.kind == "Pod"), keys)
            add_refusals(scope, jobs)
            add_prerequisites(scope, jobs, keys, None if selector else mains)
            names = with_claimed_gpus(names, scope, jobs).by_clock_of(scope.session)
            news = changed_rows(rows_of_jobs(jobs, names, by_job=by_job, pods_only=pods_only), shown)
            if news or not shown:
                yield news
    finally:
        reflector.stop()


def _note(objects: dict[Key, Object], event: Event) -> None:
    key = key_of(event.object)
    if event.type == "DELETED":
        objects.pop(key, None)
    elif key.kind == "Pod" or is_part_of_job(event.object):
        objects[key] = event.object


def changed_rows(found: Iterable[JobTableRow], shown: dict[tuple[Identity, str], JobTableRow]) -> list[JobTableRow]:
    """Return the rows that differ from ``shown``, and replace ``shown`` by all rows."""
    now = {(row.identity, row.shown_id): row for row in found}
    news = [row for key, row in now.items() if shown.get(key) != row]
    shown.clear()
    shown.update(now)
    return news
