"""Checks of names for Kubernetes, and the nearest legal name for an illegal one.

Sources: ``k8s.io/apimachinery/pkg/util/validation`` (IsDNS1035Label, IsDNS1123Label, IsDNS1123Subdomain,
IsQualifiedName, IsValidLabelValue, IsEnvVarName) and the measured limits in ``longest_job_name``.

Here and in other modules, patterns that few documents need are strings: ``re`` compiles them on first use, and
compiling all of them would take a tenth of a cold start.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.label_names import LABEL_MAX

_DNS_1035 = r"[a-z](?:[-a-z0-9]*[a-z0-9])?\Z"
_DNS_1123 = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z"
_SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z"
_QUALIFIED = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?\Z"
_ENV_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*\Z"
_HOST = r"(?=.{1,253}\Z)[A-Za-z0-9](?:[-A-Za-z0-9_]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[-A-Za-z0-9_]*[A-Za-z0-9])?)*\Z"
_IPV6 = r"(?=[^:]*:[^:]*:)[0-9a-fA-F:.]{2,45}\Z"
_DATA_KEY = r"[-._a-zA-Z0-9]+\Z"
_SUBSCRIPT = r"metadata\.(?:labels|annotations)\['(.*)'\]\Z"
_PORT_NAME = r"(?=.*[a-z])[a-z0-9](?:[a-z0-9]|-(?!-))*(?<!-)\Z"

DEFAULT_POOL = "default"
"""Pool of the nodes without another pool, and of jobs that name none."""
MAIN_CONTAINER = "main"
"""Container of a pod that runs the document's program."""
CODE_CONTAINER = "code"
"""Init container of a pod that fetches the document's repository."""
RENDEZVOUS = "rendezvous"
"""Name of the port at which the nodes of a training meet."""
ACTIVITY_CONTAINER = "gpuctl-activity"
"""Sidecar of a notebook that logs when the notebook was last used."""
DEFAULT_CODE_IMAGE = "docker.io/alpine/git:v2.47.2"
"""Image of :data:`CODE_CONTAINER` if the platform sets none."""
BUILD_MANIFEST = ".gpuctl-manifest"
"""File in a directory that `build` writes, with the files that belong to it."""
SYSTEM_NAMESPACE = "gpuctl-system"
"""Namespace of the platform's own objects."""
KUBERNETES_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that every cluster has."""
KUBERNETES_PREFIX = "kube-"
"""Start of the names of namespaces that are reserved for Kubernetes itself."""
HOST_LABEL = "kubernetes.io/hostname"
"""Node label with the name of the node."""
DEFAULT_KUBERNETES = "1.36"
"""Kubernetes version of the output if the platform names none."""
DEFAULT_DOMAIN = "runwhere.ai"
"""Prefix of labels if the platform sets none."""

SUBDOMAIN_MAX = 253

POD_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
"""Fields of a pod that a variable can read, besides single labels and annotations."""


def is_dns_1035_label(name: str) -> bool:
    """Return True for the name of a Service: lower case, digits and hyphens, starting with a letter, at most 63."""
    return len(name) <= LABEL_MAX and re.match(_DNS_1035, name) is not None


def is_dns_label(name: str) -> bool:
    """Return True for the name of a namespace (RFC 1123 label), at most 63 characters; it may start with a digit."""
    return len(name) <= LABEL_MAX and re.match(_DNS_1123, name) is not None


def is_dns_subdomain(name: str) -> bool:
    """Return True for the name of most objects (RFC 1123 subdomain): labels joined by dots, at most 253 characters."""
    return len(name) <= SUBDOMAIN_MAX and re.match(_SUBDOMAIN, name) is not None


def is_label_value(value: str) -> bool:
    """Return True for a label's value: empty, or at most 63 of letters, digits, ``-_.`` with alphanumeric ends."""
    return not value or (len(value) <= LABEL_MAX and re.match(_QUALIFIED, value) is not None)


def is_qualified_name(key: str) -> bool:
    """Return True for a label or annotation key: an optional DNS prefix and ``/``, then at most 63 characters."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (prefix and is_dns_subdomain(prefix)):
        return False
    return len(name) <= LABEL_MAX and re.match(_QUALIFIED, name) is not None


def is_env_name(name: str) -> bool:
    """Return True for the name of an environment variable, by Kubernetes' rule before relaxed validation (1.30)."""
    return re.match(_ENV_NAME, name) is not None and name != "." and not name.startswith("..")


def is_pod_field(path: str) -> bool:
    """Return True for a field of a pod that Kubernetes can give to a variable (``fieldRef``)."""
    subscript = re.match(_SUBSCRIPT, path)
    return is_qualified_name(subscript[1]) if subscript else path in POD_FIELDS


def is_data_key(key: str) -> bool:
    """Return True for a key of a Secret or ConfigMap (IsConfigMapKey)."""
    legal = len(key) <= SUBDOMAIN_MAX and re.match(_DATA_KEY, key) is not None
    return legal and key != "." and not key.startswith("..")


def is_host(text: str) -> bool:
    """Return True for a host name or an IP address, with or without brackets."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return re.match(_HOST, bare) is not None or re.match(_IPV6, bare) is not None


def is_port_name(name: str) -> bool:
    """Return True for an IANA service name: at most 15 lower-case letters, digits, single hyphens, with a letter."""
    return len(name) <= 15 and re.match(_PORT_NAME, name) is not None


def shortened(name: str, longest: int) -> str:
    """Return the beginning of a name, at most ``longest`` characters. A DNS label must not end with a hyphen."""
    return name[:longest].rstrip("-")


def nearest_dns_label(name: str, *, letter_first: bool = False) -> str | None:
    """Return the legal label most similar to ``name``; None if no character of it can be kept."""
    text = re.sub(r"[^a-z0-9]+", "-", unicodedata.normalize("NFKC", name).lower()).strip("-")
    if letter_first:
        text = text.lstrip("0123456789-")
    return shortened(text, LABEL_MAX) or None


def nearest_label_value(value: str) -> str | None:
    """Return the legal label value most similar to ``value``; None if no character of it can be kept."""
    text = re.sub(r"[^-A-Za-z0-9_.]+", "-", unicodedata.normalize("NFKC", value)).strip("-_.")
    return text[:LABEL_MAX].rstrip("-_.") or None


_LONGEST_JOBSET = 40


def longest_name_with_roles(nodes: Mapping[str, int]) -> tuple[int, Sentence]:
    """Return the maximum length of the name of a training with roles, and the reason.

    JobSet's webhook adds a random suffix of 6 characters to ``NAME-ROLE-0-INDEX``, which is at most 63 characters.

    :param nodes: role -> number of its nodes.
    """
    longest = max(nodes, key=lambda role: len(f"{role}{nodes[role] - 1}"))
    pod = f"-{longest}-0-{nodes[longest] - 1}"
    limit = LABEL_MAX - len(pod) - 6
    if limit >= _LONGEST_JOBSET:
        return longest_job_name("training", nodes=2, backend="jobset")
    return limit, say("the pods of role `{role}` are called NAME{pod}, and 6 characters more", role=longest, pod=pod)


def longest_job_name(
    kind: str, nodes: int = 1, backend: str = "job", array: int = 0, *, scheduled: bool = False, replicas: int = 1
) -> tuple[int, Sentence]:
    """Return the maximum length of a job's name, and the reason as a phrase for an error message.

    Measured on a real control plane: the API server accepts longer names, whose pods never start.

    :param array: number of indexes; 0 for a training that is not an array.
    :param scheduled: the training has a schedule.
    :param replicas: maximum number of replicas of an inference.
    """
    if kind == "training":
        if nodes > 1 and backend == "jobset":
            return _LONGEST_JOBSET, say("a JobSet's name is part of its child Jobs' and pods' names")
        pods = max(nodes, array)
        if scheduled:
            # The CronJob controller appends `-` and the minutes since 1970, for which the API server leaves 11.
            digits = 1 + len(str(pods - 1)) if nodes > 1 or array else 0
            return 52 - digits, say("a schedule appends 11 characters to the names of its runs")
        if nodes > 1 or array:
            # The pod's hostname is {name}-{index}, and a hostname is a label of at most 63.
            reason = say(
                "the pods of a {nodes}-node training are called NAME-0 to NAME-{last}", nodes=nodes, last=pods - 1
            )
            if array:
                reason = say(
                    "the pods of an array of {array} are called NAME-0 to NAME-{last}", array=array, last=pods - 1
                )
            return 62 - len(str(pods - 1)), reason
        return 63, say("a Job's name becomes a label of its pods")
    if kind == "notebook":
        # {name}-{10 characters of hash} is the label controller-revision-hash. The API server accepts longer names,
        # which never get a pod.
        return 52, say("a StatefulSet with a longer name is accepted and never gets a pod")
    if kind == "inference" and nodes > 1:
        # As for a notebook; the StatefulSet of a replica's workers is called {name}-{replica}.
        reason = say("a replica's StatefulSet has the replica's number after it")
        return 51 - len(str(max(replicas, 1) - 1)), reason
    return 59, say("its Service is called svc-NAME")
