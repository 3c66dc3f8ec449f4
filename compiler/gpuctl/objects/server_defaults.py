"""Values that the API server, and the webhooks of JobSet and LeaderWorkerSet, set in fields that are not stated.

``managedFields`` attribute them to the manager that created the object. Sources: ``SetDefaults_*`` in Kubernetes'
``pkg/apis/{core,apps,batch,autoscaling}/v*/defaults.go``; JobSet's ``pkg/webhooks/jobset_webhook.go``;
LeaderWorkerSet's ``pkg/webhooks/leaderworkerset_webhook.go``.
"""

from __future__ import annotations

from typing import Any

from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import default_pull_policy

# Maps whose keys users choose: such a key is not a field of the API.
USER_MAPS = frozenset(
    {"labels", "annotations", "nodeSelector", "matchLabels", "selector", "data", "requests", "limits", "hard"}
)
# Field, after that around it where only this one has them -> its defaults. A structure is a default if all of its
# fields are.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    # Pods
    "dnsPolicy": ("ClusterFirst",),
    # Not of an init container, where it means that the container runs beside the others.
    "spec.restartPolicy": ("Always",),
    "schedulerName": ("default-scheduler",),
    "terminationGracePeriodSeconds": (30,),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "protocol": ("TCP",),
    "scheme": ("HTTP",),
    "periodSeconds": (10,),
    "timeoutSeconds": (1, 10800),
    "successThreshold": (1,),
    "failureThreshold": (3,),
    "defaultMode": (420,),
    "apiVersion": ("v1",),
    "divisor": ("0",),
    "expirationSeconds": (3600,),
    "volumeMode": ("Filesystem",),
    # Deployments and StatefulSets
    "replicas": (1,),
    "revisionHistoryLimit": (10,),
    "progressDeadlineSeconds": (600,),
    "type": ("RollingUpdate", "ClusterIP", ""),
    "maxSurge": ("25%",),
    "maxUnavailable": ("25%",),
    "partition": (0,),
    "podManagementPolicy": ("OrderedReady",),
    "whenDeleted": ("Retain",),
    "whenScaled": ("Retain",),
    # Jobs and JobSets
    "completions": (1,),
    "parallelism": (1,),
    "backoffLimit": (6, 2**31 - 1),
    "completionMode": ("NonIndexed",),
    "manualSelector": (False,),
    "podReplacementPolicy": ("TerminatingOrFailed", "Failed"),
    "suspend": (False,),
    "operator": ("All",),
    "startupPolicyOrder": ("AnyOrder",),
    "enableDNSHostnames": (True,),
    "publishNotReadyAddresses": (True,),
    "groupName": ("default",),
    # LeaderWorkerSets
    "startupPolicy": ("LeaderCreated",),
    "leaderWorkerTemplate.restartPolicy": ("RecreateGroupOnPodRestart",),
    "subdomainPolicy": ("Shared",),
    "rollingUpdateConfiguration.maxSurge": (0,),
    "rollingUpdateConfiguration.maxUnavailable": (1,),
    # Services
    "allocateLoadBalancerNodePorts": (True,),
    "externalTrafficPolicy": ("Cluster",),
    "internalTrafficPolicy": ("Cluster",),
    "ipFamilyPolicy": ("SingleStack",),
    "sessionAffinity": ("None",),
    # Autoscalers
    "minReplicas": (1,),
    "selectPolicy": ("Max",),
}
# Values that the server allocates.
_ALLOCATED = frozenset({"clusterIPs", "ipFamilies", "healthCheckNodePort", "nodePort"})


def is_default(owner: str, field: str, value: Any, siblings: Object) -> bool:
    """Return True if the server sets ``field`` to ``value`` when the object does not state it.

    :param owner: the name of the field around ``field``; "" for an item of a list.
    :param siblings: the structure that contains ``field``.
    """
    if owner in USER_MAPS:
        return False
    if field == "imagePullPolicy":
        return bool(value == default_pull_policy(str(siblings.get("image") or "")))
    if field == "clusterIP":
        return bool(value != "None")
    if field in ("targetPort", "hostPort", "serviceAccount"):
        same_as = {"targetPort": "port", "hostPort": "containerPort", "serviceAccount": "serviceAccountName"}
        return bool(value == siblings.get(same_as[field]))
    if field in _ALLOCATED or value is None or value in ({}, []):
        return True
    if isinstance(value, dict):
        return field not in USER_MAPS and all(is_default(field, key, below, value) for key, below in value.items())
    # `False == 0`, so that the types are compared as well.
    defaults = (*_DEFAULTS.get(field, ()), *_DEFAULTS.get(f"{owner}.{field}", ()))
    return any(value == one and type(value) is type(one) for one in defaults)


def without_defaults(value: Any, field: str = "") -> Any:
    """Return a copy of a structure without the fields that have their default values."""
    if isinstance(value, dict):
        return {
            key: without_defaults(below, key)
            for key, below in value.items()
            if not is_default(field, key, below, value)
        }
    return [without_defaults(item) for item in value] if isinstance(value, list) else value
