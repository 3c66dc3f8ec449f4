"""The command line with a service of an older version: optional fields may be missing.

``test_recorded_rest.py`` holds that fields of a newer version are ignored.
"""

from __future__ import annotations

from typing import Any

from support.cluster_tools import POOL, training
from support.remote import Remote, settled
from support.rest_records import between

_LATER_FIELDS = frozenset({"address", "k8sState", "gpuLabels", "amounts", "pods", "waitingPods"})
"""Fields of nodes and pools that have a default."""


def without_later_fields(value: Any) -> Any:
    """Return an answer about nodes or pools without the fields that later versions added."""
    if isinstance(value, list):
        return [without_later_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_later_fields(item) for key, item in value.items() if key not in _LATER_FIELDS or "type" in value
    }


_OPTIONAL = frozenset(
    {
        *("node", "ip", "startedAt", "createdAt", "pool", "gpuType", "priority", "appliedBy", "reason"),
        *("uid", "statuses", "notes", "version", "description", "yamlContent", "metrics", "memoryBytes", "memory"),
        *("numbers", "ruledOut", "fix", "evidence", "also", "events", "lastTransitionTime", "nodePorts", "podIps"),
    }
)
"""Fields of jobs that have a default."""


def without_optional(value: Any) -> Any:
    """Return an answer about jobs without the fields that have a default."""
    if isinstance(value, list):
        return list(map(without_optional, value))
    if not isinstance(value, dict):
        return value
    return {key: without_optional(item) for key, item in value.items() if key not in _OPTIONAL}


NODES = (
    ("get", "nodes"),
    ("get", "nodes", "--label", "runwhere.ai/pool"),
    ("get", "nodes", "--gpu-detail"),
    ("get", "gpu-types"),
    ("get", "labels"),
    ("get", "labels", f"{POOL}-0"),
    ("get", "pools"),
    ("describe", "node", f"{POOL}-0"),
    ("describe", "pool", POOL),
)


def test_nodes_and_pools_of_an_older_service_are_printed(remote: Remote) -> None:
    """The command line prints the fields that the service returns."""
    with between(remote.served.url, lambda answer: answer.changed(without_later_fields)) as url:
        remote.login(url=url, token=remote.served.tokens["admin"])
        for words in (*NODES, ("get", "nodes", "-o", "wide")):
            assert remote.typed(*words, "--server", url).out
        assert "Jobs: not known" in remote.typed("describe", "node", f"{POOL}-0", "--server", url).out


def test_jobs_of_an_older_service_are_printed(remote: Remote) -> None:
    place = remote.place
    place.apply(training("a"))
    settled(remote, "a")
    with between(remote.served.url, lambda answer: answer.changed(without_optional)) as url:
        remote.login(url=url, token=remote.served.tokens["admin"])
        for command in (("get", "jobs"), ("get", "pods"), ("describe", "job", "a"), ("why", "a")):
            for form in ((), ("-o", "json"), *([("-o", "wide")] if command[0] == "get" else [])):
                told = remote.typed(*command, *form, "-n", place.namespace, "--server", url, code=None)
                assert told.code == 0, (command, told.err)
                assert "a" in told.out
