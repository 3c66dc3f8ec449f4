"""The schema of a snapshot's JSON document."""

from __future__ import annotations

import re
from typing import Any

from gpuctl.capacity.snapshot.schema_check import Each, Maybe
from gpuctl.objects.quantities import quantity
from gpuctl.objects.timestamps import parse_timestamp

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", re.ASCII)


def _moment(value: Any) -> None:
    """Raise ValueError if a value is not a time as the API writes it (RFC 3339)."""
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise ValueError(f"{value!r} is not a time such as 2026-01-31T12:00:00Z")
    parse_timestamp(value)


_LABELS = Maybe(Each(str))
_AMOUNTS = Each(quantity)
_SELECTOR = {
    "matchLabels": _LABELS,
    "matchExpressions": Maybe([{"key": str, "operator": str, "values": Maybe([str])}]),
}
_NODE_TERM = {
    "matchExpressions": Maybe([{"key": str, "operator": str, "values": Maybe([str])}]),
    "matchFields": Maybe([{"key": str, "operator": str, "values": Maybe([str])}]),
}
_TAINT = {"key": str, "value": Maybe(str), "effect": str}
_POD_TERM = {
    "topologyKey": str,
    "labelSelector": Maybe(_SELECTOR),
    "namespaces": Maybe([str]),
    "namespaceSelector": Maybe(_SELECTOR),
}
_TOLERATION = {key: Maybe(str) for key in ("key", "operator", "value", "effect")}
_SPREAD = {
    "maxSkew": int,
    "topologyKey": str,
    "whenUnsatisfiable": str,
    "labelSelector": Maybe(_SELECTOR),
    "minDomains": Maybe(int),
    "nodeAffinityPolicy": Maybe(str),
    "nodeTaintsPolicy": Maybe(str),
    "matchLabelKeys": Maybe([str]),
}
_ATTRIBUTE = {"string": str, "int": int, "bool": bool, "version": str}
_DEVICE = {"driver": str, "pool": str, "device": str}
_SIZE = {"size": Maybe(quantity), "block": Maybe(bool), "attributesClass": Maybe(str)}
SCHEMA: dict[str, Any] = {
    "takenAt": _moment,
    "nodes": [
        {
            "name": str,
            "labels": _LABELS,
            "taints": Maybe([_TAINT]),
            "unschedulable": Maybe(bool),
            "allocatable": _AMOUNTS,
        }
    ],
    "pods": [
        {
            "namespace": str,
            "name": str,
            "labels": _LABELS,
            "node": Maybe(str),
            "nominatedNode": Maybe(str),
            "priority": Maybe(int),
            "priorityClass": Maybe(str),
            "hasDeadline": Maybe(bool),
            "endsBy": Maybe(_moment),
            "claims": Maybe([str]),
            "deviceClaims": Maybe(
                [{"name": str, "resourceClaimName": Maybe(str), "resourceClaimTemplateName": Maybe(str)}]
            ),
            "requests": _AMOUNTS,
            "hostPorts": Maybe([{"ip": str, "protocol": str, "port": int}]),
            "antiAffinity": Maybe([_POD_TERM]),
            "scored": Maybe(_AMOUNTS),
            "wants": Maybe(
                {
                    "nodeSelector": _LABELS,
                    "tolerations": Maybe([_TOLERATION]),
                    "nodeTerms": Maybe([_NODE_TERM]),
                    "affinity": Maybe([_POD_TERM]),
                    "spread": Maybe([_SPREAD]),
                    "preferredNodes": Maybe([{"weight": int, "preference": _NODE_TERM}]),
                }
            ),
            "startTime": Maybe(_moment),
            "phase": Maybe(str),
            "deleting": Maybe(bool),
            "owner": Maybe({"group": Maybe(str), "kind": str, "name": str}),
        }
    ],
    "namespaces": [{"name": str, "labels": _LABELS, "deleting": Maybe(bool)}],
    "priorityClasses": [
        {"name": str, "value": int, "preemptionPolicy": Maybe(str), "globalDefault": Maybe(bool)},
    ],
    "runtimeClasses": [
        {"name": str, "overhead": Maybe(_AMOUNTS), "nodeSelector": _LABELS, "tolerations": Maybe([_TOLERATION])},
    ],
    "quotas": [
        {
            "kind": str,
            "metadata": {"namespace": str, "name": str},
            "spec": {"hard": Maybe(_AMOUNTS)},
            "status": Maybe({"hard": Maybe(_AMOUNTS), "used": Maybe(_AMOUNTS)}),
        }
    ],
    "limitRanges": [
        {
            "namespace": str,
            "name": Maybe(str),
            "limits": [
                {
                    "type": str,
                    "default": Maybe(_AMOUNTS),
                    "defaultRequest": Maybe(_AMOUNTS),
                    "min": Maybe(_AMOUNTS),
                    "max": Maybe(_AMOUNTS),
                    "maxLimitRequestRatio": Maybe(_AMOUNTS),
                }
            ],
        }
    ],
    "budgets": [
        {
            "namespace": str,
            "name": str,
            "selector": Maybe(_SELECTOR),
            "disruptionsAllowed": int,
            "disruptedPods": Maybe([str]),
        }
    ],
    "claims": [
        {
            "namespace": str,
            "name": str,
            "volume": Maybe(str),
            "accessModes": Maybe([str]),
            "storageClass": Maybe(str),
            "phase": Maybe(str),
            "deleting": Maybe(bool),
            "named": Maybe(str),
            "selectedNode": Maybe(str),
            "selector": Maybe(_SELECTOR),
            **_SIZE,
        }
    ],
    "volumes": [
        {
            "name": str,
            "labels": _LABELS,
            "nodeTerms": Maybe([_NODE_TERM]),
            "driver": Maybe(str),
            "handle": Maybe(str),
            "phase": Maybe(str),
            "storageClass": Maybe(str),
            "accessModes": Maybe([str]),
            "claim": Maybe({"namespace": Maybe(str), "name": Maybe(str)}),
            "deleting": Maybe(bool),
            **_SIZE,
        }
    ],
    "storageClasses": [
        {
            "name": str,
            "provisioner": str,
            "bindingMode": Maybe(str),
            "topologies": Maybe([[{"key": str, "values": [str]}]]),
            "default": Maybe(bool),
        }
    ],
    "csiNodes": [
        {"name": str, "drivers": [{"name": str, "count": Maybe(int), "topologyKeys": Maybe([str])}]},
    ],
    "csiDrivers": [{"name": str, "storageCapacity": Maybe(bool)}],
    "storageCapacities": [{"storageClass": str, "size": Maybe(quantity), "topology": Maybe(_SELECTOR)}],
    "attachments": [{"node": str, "driver": str, "volume": str}],
    "finished": [
        {"kind": str, "namespace": str, "name": str, "condition": str, "since": Maybe(_moment), "app": Maybe(str)}
    ],
    "deviceClasses": [{"name": str, "extendedResource": Maybe(str), "selectors": Maybe([str])}],
    "resourceSlices": [
        {
            "driver": str,
            "pool": {"name": str, "generation": int, "slices": int},
            "node": Maybe(str),
            "counters": Maybe(Each(_AMOUNTS)),
            "devices": [
                {
                    "name": str,
                    "attributes": Maybe(Each({key: Maybe(kind) for key, kind in _ATTRIBUTE.items()})),
                    "capacity": Maybe(_AMOUNTS),
                    "taints": Maybe([_TAINT]),
                    "node": Maybe(str),
                    "consumes": Maybe(Each(_AMOUNTS)),
                    "uncounted": Maybe(str),
                }
            ],
        }
    ],
    "resourceClaims": [
        {
            "namespace": str,
            "name": str,
            "devices": Maybe([_DEVICE]),
            "shared": Maybe([_DEVICE]),
            "pods": Maybe([str]),
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
                        "all": Maybe(bool),
                        "alternative": Maybe(bool),
                        "selectors": Maybe([str]),
                        "tolerations": Maybe([_TOLERATION]),
                        "uncounted": Maybe(str),
                    }
                ]
            ],
            "uncounted": Maybe(str),
        }
    ],
    "jobs": [
        {
            "namespace": str,
            "name": str,
            "endsBy": Maybe(_moment),
            "final": Maybe(bool),
            "spared": Maybe(int),
            "enough": Maybe(int),
        }
    ],
    "jobSets": [{"namespace": str, "name": str, "restarts": Maybe(bool), "unsure": Maybe(bool), "queued": Maybe(bool)}],
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
                        "borrowingLimit": Maybe(quantity),
                        "lendingLimit": Maybe(quantity),
                    }
                ],
            }
        ],
    }
]
_RESOURCES = {"requests": Maybe(_AMOUNTS), "limits": Maybe(_AMOUNTS)}
_CLAIM = {
    "accessModes": Maybe([str]),
    "storageClassName": Maybe(str),
    "volumeMode": Maybe(str),
    "volumeAttributesClassName": Maybe(str),
    "selector": Maybe(_SELECTOR),
    "resources": Maybe(_RESOURCES),
}
_CONTAINERS = [{"name": str, "resources": _RESOURCES, "restartPolicy": Maybe(str)}]
_QUEUES: dict[str, Any] = {
    "workloads": Maybe(
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
                        "spec": Maybe(
                            {
                                "containers": _CONTAINERS,
                                "initContainers": _CONTAINERS,
                                "resources": Maybe(_RESOURCES),
                                "overhead": Maybe(_AMOUNTS),
                                "runtimeClassName": Maybe(str),
                                "volumes": Maybe(
                                    [{"name": str, "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}}]
                                ),
                            }
                        ),
                        "sums": Maybe(_AMOUNTS),
                        "minCount": Maybe(bool),
                        "byTopology": Maybe(bool),
                    }
                ],
                "owner": Maybe({"group": str, "kind": str, "name": str}),
                "admission": Maybe(
                    {
                        "clusterQueue": str,
                        "podSets": [
                            {"flavors": Each(str), "resourceUsage": _AMOUNTS, "count": int, "ended": Maybe(int)}
                        ],
                    }
                ),
                "since": Maybe(str),
                "first": Maybe(str),
                "evicted": Maybe(bool),
                "leaves": Maybe(bool),
                "ready": Maybe(bool),
                "later": Maybe(bool),
                "gated": Maybe(str),
                "untried": Maybe(bool),
                "refused": Maybe(str),
            }
        ]
    ),
    "localqueues": Maybe([{"namespace": str, "name": str, "clusterQueue": str, "stopPolicy": str}]),
    "clusterqueues": Maybe(
        [
            {
                "name": str,
                "spec": {
                    "resourceGroups": _SLOTS,
                    "cohort": Maybe(str),
                    "cohortName": Maybe(str),
                    "queueingStrategy": Maybe(str),
                    "namespaceSelector": Maybe(_SELECTOR),
                    "flavorFungibility": Maybe(Each(str)),
                    "stopPolicy": Maybe(str),
                    "preemption": Maybe(
                        {
                            "withinClusterQueue": Maybe(str),
                            "reclaimWithinCohort": Maybe(str),
                            "borrowWithinCohort": Maybe({"policy": Maybe(str), "maxPriorityThreshold": Maybe(int)}),
                        }
                    ),
                    "checks": Maybe([str]),
                },
                "active": Maybe(bool),
                "message": Maybe(str),
                "fairSharing": Maybe(bool),
                "admissionScope": Maybe(bool),
            }
        ]
    ),
    "cohorts": Maybe(
        [{"name": str, "spec": {"resourceGroups": _SLOTS, "parent": Maybe(str), "parentName": Maybe(str)}}]
    ),
    "resourceflavors": Maybe(
        [
            {
                "name": str,
                "labels": Each(str),
                "taints": Maybe([_TAINT]),
                "tolerations": Maybe([_TOLERATION]),
                "topology": Maybe(str),
            }
        ]
    ),
    "workloadpriorityclasses": Maybe([{"name": str, "value": int}]),
    "configuration": Maybe(
        {
            "blockAdmission": bool,
            "excludeResourcePrefixes": [str],
            "transformedResources": [str],
            "manageJobsWithoutQueueName": bool,
            "managedNamespaces": Maybe(_SELECTOR),
            "frameworks": Maybe([str]),
            "ordersByCreation": Maybe(bool),
            "ignoresUndeclared": Maybe(bool),
            "release": Maybe(str),
            "deviceClasses": Maybe(Each(str)),
            "measuredClasses": Maybe([str]),
            "gates": Maybe(Each(bool)),
        }
    ),
}
SCHEMA["kueue"] = Maybe(_QUEUES)
