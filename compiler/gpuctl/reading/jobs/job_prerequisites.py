"""The prerequisites of waiting trainings, read from the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.kube.scope import Scope
from gpuctl.objects.api_resources import TRAININGS, Object
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import Prerequisite, ends_of, is_waiting, judge


def read_prerequisites(
    scope: Scope, mains: Iterable[Object], keys: Records, listed: Iterable[Object] | None = None
) -> dict[str, list[Prerequisite]]:
    """Return the prerequisites of each training that waits, by its uid. Nothing is read if none waits.

    :param mains: main objects of jobs.
    :param listed: all trainings of their namespaces, if they were read already.
    """
    waiting = [obj for obj in mains if is_waiting(obj, keys)]
    if not waiting:
        return {}
    if listed is None:
        listed = []
        for namespace in sorted({obj["metadata"]["namespace"] for obj in waiting}):
            local = Scope(scope.session, namespace)
            listed += [obj for found in local.lists(sorted(TRAININGS), labels=keys.job_type) for obj in found]
    ends = ends_of(listed, keys)
    return {obj["metadata"]["uid"]: judge(obj, ends, keys) for obj in waiting}
