"""The schema of a snapshot's JSON document, and its validation."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from gpuctl.capacity.pod_requests import quantity

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", re.ASCII)


class _Maybe:
    """An optional part."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema


class _Each:
    """An object with any keys and values of one schema."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema


def _moment(value: Any) -> None:
    """Raise ValueError if a value is not a time as the API writes it (RFC 3339)."""
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise ValueError(f"{value!r} is not a time such as 2026-01-31T12:00:00Z")
    datetime.fromisoformat(value.replace("Z", "+00:00"))


_LABELS = _Maybe(_Each(str))
_AMOUNTS = _Each(quantity)
_SELECTOR = {
    "matchLabels": _LABELS,
    "matchExpressions": _Maybe([{"key": str, "operator": str, "values": _Maybe([str])}]),
}
_NODE_TERM = {
    "matchExpressions": _Maybe([{"key": str, "operator": str, "values": _Maybe([str])}]),
    "matchFields": _Maybe([{"key": str, "operator": str, "values": _Maybe([str])}]),
}
_TAINT = {"key": str, "value": _Maybe(str), "effect": str}
_POD_TERM = {
    "topologyKey": str,
    "labelSelector": _Maybe(_SELECTOR),
    "namespaces": _Maybe([str]),
    "namespaceSelector": _Maybe(_SELECTOR),
}
_TOLERATION = {key: _Maybe(str) for key in ("key", "operator", "value", "effect")}
_SPREAD = {
    "maxSkew": int,
    "topologyKey": str,
    "whenUnsatisfiable": str,
    "labelSelector": _Maybe(_SELECTOR),
    "minDomains": _Maybe(int),
    "nodeAffinityPolicy": _Maybe(str),
    "nodeTaintsPolicy": _Maybe(str),
    "matchLabelKeys": _Maybe([str]),
}
_ATTRIBUTE = {"string": str, "int": int, "bool": bool, "version": str}
_SIZE = {"size": _Maybe(quantity), "block": _Maybe(bool), "attributesClass": _Maybe(str)}
SCHEMA: dict[str, Any] = {
    "takenAt": _moment,
    "nodes": [
        {
            "name": str,
            "labels": _LABELS,
            "taints": _Maybe([_TAINT]),
            "unschedulable": _Maybe(bool),
            "allocatable": _AMOUNTS,
        }
    ],
    "pods": [
        {
            "namespace": str,
            "name": str,
            "labels": _LABELS,
            "node": _Maybe(str),
            "nominatedNode": _Maybe(str),
            "priority": _Maybe(int),
            "priorityClass": _Maybe(str),
            "hasDeadline": _Maybe(bool),
            "endsBy": _Maybe(_moment),
            "claims": _Maybe([str]),
            "deviceClaims": _Maybe(
                [{"name": str, "resourceClaimName": _Maybe(str), "resourceClaimTemplateName": _Maybe(str)}]
            ),
            "requests": _AMOUNTS,
            "hostPorts": _Maybe([{"ip": str, "protocol": str, "port": int}]),
            "antiAffinity": _Maybe([_POD_TERM]),
            "scored": _Maybe(_AMOUNTS),
            "wants": _Maybe(
                {
                    "nodeSelector": _LABELS,
                    "tolerations": _Maybe([_TOLERATION]),
                    "nodeTerms": _Maybe([_NODE_TERM]),
                    "affinity": _Maybe([_POD_TERM]),
                    "spread": _Maybe([_SPREAD]),
                    "preferredNodes": _Maybe([{"weight": int, "preference": _NODE_TERM}]),
                }
            ),
            "startTime": _Maybe(_moment),
            "phase": _Maybe(str),
            "deleting": _Maybe(bool),
            "owner": _Maybe({"group": _Maybe(str), "kind": str, "name": str}),
        }
    ],
    "namespaces": [{"name": str, "labels": _LABELS, "deleting": _Maybe(bool)}],
    "priorityClasses": [
        {"name": str, "value": int, "preemptionPolicy": _Maybe(str), "globalDefault": _Maybe(bool)},
    ],
    "runtimeClasses": [
        {"name": str, "overhead": _Maybe(_AMOUNTS), "nodeSelector": _LABELS, "tolerations": _Maybe([_TOLERATION])},
    ],
    "quotas": [
        {
            "kind": str,
            "metadata": {"namespace": str, "name": str},
            "spec": {"hard": _Maybe(_AMOUNTS)},
            "status": _Maybe({"hard": _Maybe(_AMOUNTS), "used": _Maybe(_AMOUNTS)}),
        }
    ],
    "limitRanges": [
        {
            "namespace": str,
            "name": _Maybe(str),
            "limits": [
                {
                    "type": str,
                    "default": _Maybe(_AMOUNTS),
                    "defaultRequest": _Maybe(_AMOUNTS),
                    "min": _Maybe(_AMOUNTS),
                    "max": _Maybe(_AMOUNTS),
                    "maxLimitRequestRatio": _Maybe(_AMOUNTS),
                }
            ],
        }
    ],
    "budgets": [
        {
            "namespace": str,
            "name": str,
            "selector": _Maybe(_SELECTOR),
            "disruptionsAllowed": int,
            "disruptedPods": _Maybe([str]),
        }
    ],
    "claims": [
        {
            "namespace": str,
            "name": str,
            "volume": _Maybe(str),
            "accessModes": _Maybe([str]),
            "storageClass": _Maybe(str),
            "phase": _Maybe(str),
            "deleting": _Maybe(bool),
            "named": _Maybe(str),
            "selectedNode": _Maybe(str),
            "selector": _Maybe(_SELECTOR),
            **_SIZE,
        }
    ],
    "volumes": [
        {
            "name": str,
            "labels": _LABELS,
            "nodeTerms": _Maybe([_NODE_TERM]),
            "driver": _Maybe(str),
            "handle": _Maybe(str),
            "phase": _Maybe(str),
            "storageClass": _Maybe(str),
            "accessModes": _Maybe([str]),
            "claim": _Maybe({"namespace": _Maybe(str), "name": _Maybe(str)}),
            "deleting": _Maybe(bool),
            **_SIZE,
        }
    ],
    "storageClasses": [
        {
            "name": str,
            "provisioner": str,
            "bindingMode": _Maybe(str),
            "topologies": _Maybe([[{"key": str, "values": [str]}]]),
            "default": _Maybe(bool),
        }
    ],
    "csiNodes": [
        {"name": str, "drivers": [{"name": str, "count": _Maybe(int), "topologyKeys": _Maybe([str])}]},
    ],
    "csiDrivers": [{"name": str, "storageCapacity": _Maybe(bool)}],
    "storageCapacities": [{"storageClass": str, "size": _Maybe(quantity), "topology": _Maybe(_SELECTOR)}],
    "attachments": [{"node": str, "driver": str, "volume": str}],
    "finished": [
        {"kind": str, "namespace": str, "name": str, "condition": str, "since": _Maybe(_moment), "app": _Maybe(str)}
    ],
    "deviceClasses": [{"name": str, "extendedResource": _Maybe(str), "selectors": _Maybe([str])}],
    "resourceSlices": [
        {
            "driver": str,
            "pool": {"name": str, "generation": int, "slices": int},
            "node": _Maybe(str),
            "devices": [
                {
                    "name": str,
                    "attributes": _Maybe(_Each({key: _Maybe(kind) for key, kind in _ATTRIBUTE.items()})),
                    "capacity": _Maybe(_AMOUNTS),
                    "taints": _Maybe([_TAINT]),
                    "node": _Maybe(str),
                    "uncounted": _Maybe(str),
                }
            ],
        }
    ],
    "resourceClaims": [
        {
            "namespace": str,
            "name": str,
            "devices": _Maybe([{"driver": str, "pool": str, "device": str}]),
            "pods": _Maybe([str]),
        }
    ],
    "resourceClaimTemplates": [
        {
            "namespace": str,
            "name": str,
            "requests": [
                [
                    {
                        "class": str,
                        "count": int,
                        "all": _Maybe(bool),
                        "selectors": _Maybe([str]),
                        "tolerations": _Maybe([_TOLERATION]),
                        "uncounted": _Maybe(str),
                    }
                ]
            ],
            "uncounted": _Maybe(str),
        }
    ],
    "jobs": [
        {
            "namespace": str,
            "name": str,
            "endsBy": _Maybe(_moment),
            "final": _Maybe(bool),
            "spared": _Maybe(int),
            "enough": _Maybe(int),
        }
    ],
    "jobSets": [
        {"namespace": str, "name": str, "restarts": _Maybe(bool), "unsure": _Maybe(bool), "queued": _Maybe(bool)}
    ],
    "customResources": [{"name": str, "kind": str, "versions": [str]}],
    "unreadable": [str],
}
"""The schema of a snapshot. A list of one item describes its items; a function parses the value and raises ValueError.
"""

_SLOTS = [
    {
        "coveredResources": [str],
        "flavors": [
            {
                "name": str,
                "resources": [
                    {
                        "name": str,
                        "nominalQuota": quantity,
                        "borrowingLimit": _Maybe(quantity),
                        "lendingLimit": _Maybe(quantity),
                    }
                ],
            }
        ],
    }
]
_RESOURCES = {"requests": _Maybe(_AMOUNTS), "limits": _Maybe(_AMOUNTS)}
_CLAIM = {
    "accessModes": _Maybe([str]),
    "storageClassName": _Maybe(str),
    "volumeMode": _Maybe(str),
    "volumeAttributesClassName": _Maybe(str),
    "selector": _Maybe(_SELECTOR),
    "resources": _Maybe(_RESOURCES),
}
_CONTAINERS = [{"name": str, "resources": _RESOURCES, "restartPolicy": _Maybe(str)}]
_QUEUES: dict[str, Any] = {
    "workloads": _Maybe(
        [
            {
                "namespace": str,
                "name": str,
                "uid": str,
                "queue": str,
                "priority": int,
                "created": str,
                "podSets": [
                    {
                        "name": str,
                        "count": int,
                        "pod": SCHEMA["pods"][0],
                        "spec": _Maybe(
                            {
                                "containers": _CONTAINERS,
                                "initContainers": _CONTAINERS,
                                "resources": _Maybe(_RESOURCES),
                                "overhead": _Maybe(_AMOUNTS),
                                "runtimeClassName": _Maybe(str),
                                "volumes": _Maybe(
                                    [{"name": str, "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}}]
                                ),
                            }
                        ),
                        "sums": _Maybe(_AMOUNTS),
                        "minCount": _Maybe(bool),
                        "byTopology": _Maybe(bool),
                    }
                ],
                "owner": _Maybe({"group": str, "kind": str, "name": str}),
                "admission": _Maybe(
                    {
                        "clusterQueue": str,
                        "podSets": [
                            {"flavors": _Each(str), "resourceUsage": _AMOUNTS, "count": int, "ended": _Maybe(int)}
                        ],
                    }
                ),
                "since": _Maybe(str),
                "first": _Maybe(str),
                "evicted": _Maybe(bool),
                "leaves": _Maybe(bool),
                "ready": _Maybe(bool),
                "later": _Maybe(bool),
                "gated": _Maybe(str),
                "untried": _Maybe(bool),
                "refused": _Maybe(str),
            }
        ]
    ),
    "localqueues": _Maybe([{"namespace": str, "name": str, "clusterQueue": str, "stopPolicy": str}]),
    "clusterqueues": _Maybe(
        [
            {
                "name": str,
                "spec": {
                    "resourceGroups": _SLOTS,
                    "cohort": _Maybe(str),
                    "cohortName": _Maybe(str),
                    "queueingStrategy": _Maybe(str),
                    "namespaceSelector": _Maybe(_SELECTOR),
                    "flavorFungibility": _Maybe(_Each(str)),
                    "stopPolicy": _Maybe(str),
                    "preemption": _Maybe(
                        {
                            "withinClusterQueue": _Maybe(str),
                            "reclaimWithinCohort": _Maybe(str),
                            "borrowWithinCohort": _Maybe({"policy": _Maybe(str), "maxPriorityThreshold": _Maybe(int)}),
                        }
                    ),
                    "checks": _Maybe([str]),
                },
                "active": _Maybe(bool),
                "message": _Maybe(str),
                "fairSharing": _Maybe(bool),
                "admissionScope": _Maybe(bool),
            }
        ]
    ),
    "cohorts": _Maybe(
        [{"name": str, "spec": {"resourceGroups": _SLOTS, "parent": _Maybe(str), "parentName": _Maybe(str)}}]
    ),
    "resourceflavors": _Maybe(
        [
            {
                "name": str,
                "labels": _Each(str),
                "taints": _Maybe([_TAINT]),
                "tolerations": _Maybe([_TOLERATION]),
                "topology": _Maybe(str),
            }
        ]
    ),
    "workloadpriorityclasses": _Maybe([{"name": str, "value": int}]),
    "configuration": _Maybe(
        {
            "blockAdmission": bool,
            "excludeResourcePrefixes": [str],
            "transformedResources": [str],
            "manageJobsWithoutQueueName": bool,
            "managedNamespaces": _Maybe(_SELECTOR),
            "frameworks": _Maybe([str]),
            "ordersByCreation": _Maybe(bool),
            "ignoresUndeclared": _Maybe(bool),
            "release": _Maybe(str),
            "mapsDevices": _Maybe(bool),
        }
    ),
}
SCHEMA["kueue"] = _Maybe(_QUEUES)
_NAMES = {str: "a text", int: "a whole number", bool: "true or false", dict: "an object"}


ADDED_LISTS = {
    2: ("storageClasses", "csiNodes", "attachments"),
    3: ("csiDrivers", "storageCapacities", "jobs", "jobSets"),
    4: ("finished", "deviceClasses", "resourceSlices"),
    5: ("resourceClaims", "resourceClaimTemplates"),
}
"""Snapshot version -> lists that it added."""


def check_schema(value: Any, schema: Any = SCHEMA, path: str = "") -> None:
    """Raise ValueError if a value does not match a schema."""
    if isinstance(schema, _Maybe):
        schema = schema.schema
    if isinstance(schema, list):
        if not isinstance(value, list):
            raise ValueError(f"{path} is not a list")
        for index, item in enumerate(value):
            check_schema(item, schema[0], f"{path}[{index}]")
    elif isinstance(schema, (dict, _Each)):
        if not isinstance(value, dict):
            raise ValueError(f"{path} is not an object")
        if isinstance(schema, _Each):
            for key, item in value.items():
                check_schema(item, schema.schema, f"{path}.{key}")
            return
        for key, item in schema.items():
            inner = f"{path}.{key}".lstrip(".")
            if key in value:
                check_schema(value[key], item, inner)
            elif not isinstance(item, _Maybe):
                raise ValueError(f"{inner} is missing")
    elif isinstance(schema, type):
        if not isinstance(value, schema) or (schema is int and isinstance(value, bool)):
            raise ValueError(f"{path} is not {_NAMES[schema]}")
    else:
        try:
            schema(value)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
