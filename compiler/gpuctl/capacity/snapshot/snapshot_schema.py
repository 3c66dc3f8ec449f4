"""The JSON Schema of a snapshot's document."""

from __future__ import annotations

from typing import Any

from gpuctl.objects.quantities import QUANTITY

Schema = dict[str, Any]


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    """Return the schema of an object of gpuctl. Another field is an error: it may be a misspelt one."""
    return {**_kubernetes(required, optional), "additionalProperties": False}


def _kubernetes(required: Schema, optional: Schema | None = None) -> Schema:
    """Return the schema of a part that is copied from an object of Kubernetes, with all its fields."""
    fields = {**required, **(optional or {})}
    return {"title": "an object", "type": "object", "properties": fields, "required": list(required)}


def _list(items: Schema) -> Schema:
    return {"title": "a list", "type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"title": "an object", "type": "object", "additionalProperties": values}


def _word(*words: str) -> Schema:
    return {"title": f"one of {', '.join(words)}", "enum": words}


# The title says what a value is not, if it does not match.
_TEXT: Schema = {"title": "a text", "type": "string"}
_NUMBER: Schema = {"title": "a whole number", "type": "integer"}
_COUNT: Schema = {"title": "a whole number above 0", "type": "integer", "minimum": 1}
_FLAG: Schema = {"title": "true or false", "type": "boolean"}
_AMOUNT: Schema = {"title": "a quantity", "type": ["string", "integer"], "pattern": f"^{QUANTITY}$", "maxLength": 64}
_TIME: Schema = {
    "title": "a time such as 2026-01-31T12:00:00Z",
    "type": "string",
    "format": "date-time",
    "pattern": r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{6})?Z$",
}
_EFFECT = _word("NoSchedule", "PreferNoSchedule", "NoExecute", "None")
_TEXTS = _list(_TEXT)
_LABELS = _map(_TEXT)
_AMOUNTS = _map(_AMOUNT)
_OPERATOR = _word("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _condition(subject: str, *operators: str) -> Schema:
    """Return the schema of a requirement. ``operators``: those that need values."""
    values = {"title": "a list with a text", "minItems": 1}
    return _kubernetes({subject: _TEXT, "operator": _OPERATOR}, {"values": _TEXTS}) | {
        "if": {"properties": {"operator": {"enum": operators}}},
        "then": {"required": ["values"], "properties": {"values": values}},
    }


_REQUIREMENTS = _list(_condition("key", "Gt", "Lt"))
_SELECTOR = _kubernetes({}, {"matchLabels": _LABELS, "matchExpressions": _REQUIREMENTS})
_NODE_TERM = _kubernetes({}, {"matchExpressions": _REQUIREMENTS, "matchFields": _REQUIREMENTS})
_TAINTS = _list(_kubernetes({"key": _TEXT, "effect": _EFFECT}, {"value": _TEXT}))
_TOLERATIONS = _list(_kubernetes({}, {"key": _TEXT, "operator": _TEXT, "value": _TEXT, "effect": _TEXT}))
_POD_TERMS = _list(
    _object({"topologyKey": _TEXT}, {"labelSelector": _SELECTOR, "namespaces": _TEXTS, "namespaceSelector": _SELECTOR})
)
_SPREAD = _kubernetes(
    {"maxSkew": _NUMBER, "topologyKey": _TEXT, "whenUnsatisfiable": _word("DoNotSchedule", "ScheduleAnyway")},
    {
        "labelSelector": _SELECTOR,
        "minDomains": _NUMBER,
        "nodeAffinityPolicy": _TEXT,
        "nodeTaintsPolicy": _TEXT,
        "matchLabelKeys": _TEXTS,
    },
)
_WANTS = _object(
    {},
    {
        "nodeSelector": _LABELS,
        "tolerations": _TOLERATIONS,
        "nodeTerms": _list(_NODE_TERM),
        "affinity": _POD_TERMS,
        "spread": _list(_SPREAD),
        "preferredNodes": _list(_kubernetes({"weight": _NUMBER, "preference": _NODE_TERM})),
    },
)
_POD = _object(
    {"namespace": _TEXT, "name": _TEXT, "requests": _AMOUNTS},
    {
        "labels": _LABELS,
        "node": _TEXT,
        "nominatedNode": _TEXT,
        "priority": _NUMBER,
        "priorityClass": _TEXT,
        "hasDeadline": _FLAG,
        "endsBy": _TIME,
        "claims": _TEXTS,
        "deviceClaims": _list(
            _object({"name": _TEXT}, {"resourceClaimName": _TEXT, "resourceClaimTemplateName": _TEXT})
        ),
        "hostPorts": _list(_object({"ip": _TEXT, "protocol": _TEXT, "port": _NUMBER})),
        "antiAffinity": _POD_TERMS,
        "scored": _AMOUNTS,
        "wants": _WANTS,
        "startTime": _TIME,
        "phase": _TEXT,
        "deleting": _FLAG,
        "owner": _object({"kind": _TEXT, "name": _TEXT}, {"group": _TEXT}),
    },
)
_SCOPE = _condition("scopeName", "In", "NotIn")
_QUOTA_SPEC = _kubernetes(
    {}, {"hard": _AMOUNTS, "scopes": _TEXTS, "scopeSelector": _kubernetes({}, {"matchExpressions": _list(_SCOPE)})}
)
_QUOTA = _object(
    {"kind": _TEXT, "metadata": _object({"namespace": _TEXT, "name": _TEXT}), "spec": _QUOTA_SPEC},
    {"status": _kubernetes({}, {"hard": _AMOUNTS, "used": _AMOUNTS})},
)
_LIMITS = ("default", "defaultRequest", "min", "max", "maxLimitRequestRatio")
_LIMIT = _kubernetes({"type": _TEXT}, dict.fromkeys(_LIMITS, _AMOUNTS))
_SIZE = {"size": _AMOUNT, "block": _FLAG, "attributesClass": _TEXT}
_CLAIM = _object(
    {"namespace": _TEXT, "name": _TEXT},
    {
        "volume": _TEXT,
        "accessModes": _TEXTS,
        "storageClass": _TEXT,
        "phase": _TEXT,
        "deleting": _FLAG,
        "named": _TEXT,
        "selectedNode": _TEXT,
        "selector": _SELECTOR,
        **_SIZE,
    },
)
_VOLUME = _object(
    {"name": _TEXT},
    {
        "labels": _LABELS,
        "nodeTerms": _list(_NODE_TERM),
        "driver": _TEXT,
        "handle": _TEXT,
        "phase": _TEXT,
        "storageClass": _TEXT,
        "accessModes": _TEXTS,
        "claim": _object({}, {"namespace": _TEXT, "name": _TEXT}),
        "deleting": _FLAG,
        **_SIZE,
    },
) | {"if": {"required": ["driver"]}, "then": {"required": ["handle"]}}
_STORAGE_CLASS = _object(
    {"name": _TEXT, "provisioner": _TEXT},
    {
        "bindingMode": _TEXT,
        "topologies": _list(_list(_object({"key": _TEXT, "values": _TEXTS}))),
        "default": _FLAG,
    },
)
_CSI_DRIVER = _object({"name": _TEXT}, {"count": _NUMBER, "topologyKeys": _TEXTS})
_ATTRIBUTE = _object({}, {"string": _TEXT, "int": _NUMBER, "bool": _FLAG, "version": _TEXT})
_DEVICE = _object(
    {"name": _TEXT},
    {
        "attributes": _map(_ATTRIBUTE),
        "capacity": _AMOUNTS,
        "taints": _TAINTS,
        "node": _TEXT,
        "consumes": _map(_AMOUNTS),
        "uncounted": _TEXT,
    },
)
_RESOURCE_SLICE = _object(
    {
        "driver": _TEXT,
        "pool": _object({"name": _TEXT, "generation": _NUMBER, "slices": _NUMBER}),
        "devices": _list(_DEVICE),
    },
    {"node": _TEXT, "counters": _map(_AMOUNTS)},
)
_HELD = _list(_object({"driver": _TEXT, "pool": _TEXT, "device": _TEXT}))
_DEVICE_OPTION = _object(
    {"class": _TEXT, "count": _COUNT},
    {
        "all": _FLAG,
        "alternative": _FLAG,
        "selectors": _TEXTS,
        "tolerations": _TOLERATIONS,
        "uncounted": _TEXT,
    },
)
_FINISHED = _object(
    {"kind": _TEXT, "namespace": _TEXT, "name": _TEXT, "condition": _TEXT}, {"since": _TIME, "app": _TEXT}
)
_RESOURCES = _object({}, {"requests": _AMOUNTS, "limits": _AMOUNTS})
_EPHEMERAL_CLAIM = _object(
    {},
    {
        "accessModes": _TEXTS,
        "storageClassName": _TEXT,
        "volumeMode": _TEXT,
        "volumeAttributesClassName": _TEXT,
        "selector": _SELECTOR,
        "resources": _kubernetes({}, {"requests": _AMOUNTS, "limits": _AMOUNTS}),
    },
)
_EPHEMERAL_VOLUME = _object(
    {"name": _TEXT, "ephemeral": _object({"volumeClaimTemplate": _object({"spec": _EPHEMERAL_CLAIM})})}
)
_CONTAINERS = _list(_object({"name": _TEXT, "resources": _RESOURCES}, {"restartPolicy": _TEXT}))
_POD_SPEC = _object(
    {"containers": _CONTAINERS, "initContainers": _CONTAINERS},
    {
        "resources": _RESOURCES,
        "overhead": _AMOUNTS,
        "runtimeClassName": _TEXT,
        "volumes": _list(_EPHEMERAL_VOLUME),
    },
)
_POD_SET = _object(
    {"name": _TEXT, "count": _NUMBER, "pod": _POD},
    {"spec": _POD_SPEC, "sums": _AMOUNTS, "minCount": _FLAG, "byTopology": _FLAG},
)
_ADMITTED_SET = _object({"flavors": _LABELS, "resourceUsage": _AMOUNTS, "count": _NUMBER}, {"ended": _NUMBER})
_WORKLOAD = _object(
    {
        "namespace": _TEXT,
        "name": _TEXT,
        "uid": _TEXT,
        "queue": _TEXT,
        "priority": _NUMBER,
        "created": _TEXT,
        "podSets": _list(_POD_SET),
    },
    {
        "owner": _object({"group": _TEXT, "kind": _TEXT, "name": _TEXT}),
        "admission": _object({"clusterQueue": _TEXT, "podSets": _list(_ADMITTED_SET)}),
        "since": _TEXT,
        "first": _TEXT,
        "gated": _TEXT,
        "refused": _TEXT,
        **dict.fromkeys(("evicted", "leaves", "ready", "later", "untried"), _FLAG),
    },
)
_FLAVOR_AMOUNTS = _kubernetes(
    {"name": _TEXT, "nominalQuota": _AMOUNT}, {"borrowingLimit": _AMOUNT, "lendingLimit": _AMOUNT}
)
_RESOURCE_GROUPS = _list(
    _object(
        {"coveredResources": _TEXTS, "flavors": _list(_object({"name": _TEXT, "resources": _list(_FLAVOR_AMOUNTS)}))}
    )
)
_PREEMPTION = _kubernetes(
    {},
    {
        "withinClusterQueue": _TEXT,
        "reclaimWithinCohort": _TEXT,
        "borrowWithinCohort": _kubernetes({}, {"policy": _TEXT, "maxPriorityThreshold": _NUMBER}),
    },
)
_CLUSTER_QUEUE = _object(
    {
        "name": _TEXT,
        "spec": _object(
            {"resourceGroups": _RESOURCE_GROUPS},
            {
                **dict.fromkeys(("cohort", "cohortName", "queueingStrategy", "stopPolicy"), _TEXT),
                "namespaceSelector": _SELECTOR,
                "flavorFungibility": _LABELS,
                "preemption": _PREEMPTION,
                "checks": _TEXTS,
            },
        ),
    },
    {"active": _FLAG, "message": _TEXT, "fairSharing": _FLAG, "admissionScope": _FLAG},
)
_COHORT = _object(
    {"name": _TEXT, "spec": _object({"resourceGroups": _RESOURCE_GROUPS}, {"parent": _TEXT, "parentName": _TEXT})}
)
_FLAVOR = _object(
    {"name": _TEXT, "labels": _LABELS}, {"taints": _TAINTS, "tolerations": _TOLERATIONS, "topology": _TEXT}
)
_CONFIGURATION = _object(
    {
        "blockAdmission": _FLAG,
        "excludeResourcePrefixes": _TEXTS,
        "transformedResources": _TEXTS,
        "manageJobsWithoutQueueName": _FLAG,
    },
    {
        "managedNamespaces": _SELECTOR,
        "frameworks": _TEXTS,
        "ordersByCreation": _FLAG,
        "ignoresUndeclared": _FLAG,
        "release": _TEXT,
        "deviceClasses": _LABELS,
        "measuredClasses": _TEXTS,
        "gates": _map(_FLAG),
    },
)
_KUEUE = {
    "workloads": _list(_WORKLOAD),
    "localqueues": _list(_object(dict.fromkeys(("namespace", "name", "clusterQueue", "stopPolicy"), _TEXT))),
    "clusterqueues": _list(_CLUSTER_QUEUE),
    "cohorts": _list(_COHORT),
    "resourceflavors": _list(_FLAVOR),
    "workloadpriorityclasses": _list(_object({"name": _TEXT, "value": _NUMBER})),
    "configuration": _CONFIGURATION,
}
_NAMED: Schema = {"namespace": _TEXT, "name": _TEXT}
_NODE = _object(
    {"name": _TEXT, "allocatable": _AMOUNTS},
    {"labels": _LABELS, "poolLabels": _TEXTS, "taints": _TAINTS, "unschedulable": _FLAG},
)
SCHEMA = _object(
    {
        "kind": _TEXT,
        "version": _NUMBER,
        "takenAt": _TIME,
        "nodes": _list(_NODE),
        "pods": _list(_POD),
        "namespaces": _list(_object({"name": _TEXT}, {"labels": _LABELS, "deleting": _FLAG})),
        "priorityClasses": _list(
            _object({"name": _TEXT, "value": _NUMBER}, {"preemptionPolicy": _TEXT, "globalDefault": _FLAG})
        ),
        "runtimeClasses": _list(
            _object({"name": _TEXT}, {"overhead": _AMOUNTS, "nodeSelector": _LABELS, "tolerations": _TOLERATIONS})
        ),
        "quotas": _list(_QUOTA),
        "limitRanges": _list(_object({"namespace": _TEXT, "limits": _list(_LIMIT)}, {"name": _TEXT})),
        "budgets": _list(
            _object({**_NAMED, "disruptionsAllowed": _NUMBER}, {"selector": _SELECTOR, "disruptedPods": _TEXTS})
        ),
        "claims": _list(_CLAIM),
        "volumes": _list(_VOLUME),
        "storageClasses": _list(_STORAGE_CLASS),
        "csiNodes": _list(_object({"name": _TEXT, "drivers": _list(_CSI_DRIVER)})),
        "csiDrivers": _list(_object({"name": _TEXT}, {"storageCapacity": _FLAG})),
        "storageCapacities": _list(_object({"storageClass": _TEXT}, {"size": _AMOUNT, "topology": _SELECTOR})),
        "attachments": _list(_object({"node": _TEXT, "driver": _TEXT, "volume": _TEXT})),
        "finished": _list(_FINISHED),
        "deviceClasses": _list(_object({"name": _TEXT}, {"extendedResource": _TEXT, "selectors": _TEXTS})),
        "resourceSlices": _list(_RESOURCE_SLICE),
        "resourceClaims": _list(_object(_NAMED, {"devices": _HELD, "shared": _HELD, "pods": _TEXTS})),
        "resourceClaimTemplates": _list(
            _object({**_NAMED, "requests": _list(_list(_DEVICE_OPTION))}, {"uncounted": _TEXT})
        ),
        "jobs": _list(_object(_NAMED, {"endsBy": _TIME, "final": _FLAG, "spared": _NUMBER, "enough": _NUMBER})),
        "jobSets": _list(_object(_NAMED, {"restarts": _FLAG, "unsure": _FLAG, "queued": _FLAG})),
        "unreadable": _TEXTS,
    },
    # Older files have customResources, which nothing uses.
    {"kueue": _object({}, _KUEUE), "customResources": {}},
)
