"""Sets of applied objects in the ApplySet form that kubectl understands: the parent Secret and its members' label.

The rules are those of kubectl's code (``k8s.io/kubectl/pkg/cmd/apply/applyset.go``, v0.36; its functions are named
below), which differs in places from the text of KEP-3659. This module sends no requests. The order of an apply that
prunes:

1. :func:`parse_parent` reads the Secret if it exists, :func:`resources_of` returns the kinds to list;
2. write the :func:`superset` of that set and of the objects to apply (:func:`exact_set`), so that a crash loses no
   member;
3. apply; list the superset's kinds in its namespaces by the part-of label; delete the members that were not applied;
4. write the :func:`exact_set`. After an error before this step the superset stays.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gpuctl.apply.state.git_repository import Commit, parse_commit
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.display_text import visible
from gpuctl.language.names import is_dns_label
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Key, Object, Resource, annotations_of, labels_of
from gpuctl.release import __version__

ID = "applyset.kubernetes.io/id"
TOOLING = "applyset.kubernetes.io/tooling"
GROUP_KINDS = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES = "applyset.kubernetes.io/additional-namespaces"
SOURCES = "gpuctl/sources"
"""Sources of the members. Not under the platform's domain, because a set can be applied with any platform."""
COMMIT = "gpuctl/commit"
"""The commit that the set was last applied from, as JSON."""

OUR_TOOLING = f"gpuctl/v{__version__}"

_GROUP_KIND = re.compile(r"[A-Za-z][A-Za-z0-9-]*(\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?")


class NotOurSet(ClusterError):
    """A Secret that cannot be used as the parent of a set: not a parent, managed by another tool, or damaged."""


class ApplySet(NamedTuple):
    """The contents of a set's parent Secret.

    ``name`` and ``namespace`` are the Secret's. ``group_kinds`` are the members' kinds as kubectl writes them
    (``Job.batch``; ``Service`` for the core group). ``namespaces`` are the members' namespaces other than the Secret's.
    ``sources`` are the inputs that the members came from (:func:`gpuctl.apply.state.provenance.sources_of`; empty if
    unknown). ``tooling`` is the tool that wrote the Secret (``gpuctl/v0.1.0``). ``commit`` is the commit that the set
    was last applied from, None if unknown.
    """

    name: str
    namespace: str
    group_kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()
    tooling: str = OUR_TOOLING
    commit: Commit | None = None

    @property
    def id(self) -> str:
        """Return the value of the Secret's id label and of the members' part-of label."""
        return set_id(self.name, self.namespace)

    @property
    def all_namespaces(self) -> frozenset[str]:
        """Return the namespaces that members may be in: the Secret's and the additional ones
        (``AllPrunableNamespaces``).
        """
        return self.namespaces | {self.namespace}


def set_id(name: str, namespace: str, kind: str = "Secret", group: str = "") -> str:
    """Return the id of the set with this parent object.

    ``applyset-`` + unpadded base64url of sha256(``name.namespace.kind.group``) + ``-v1`` (``ApplySet.ID``).
    """
    digest = hashlib.sha256(f"{name}.{namespace}.{kind}.{group}".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def group_kind(thing: Object | Resource) -> str:
    """Return the kind of an object or resource as sets write it: ``Job.batch``, ``Service`` (``GroupKind.String``)."""
    if isinstance(thing, Resource):
        return thing.group_kind
    group, slash, _ = thing["apiVersion"].partition("/")
    return f"{thing['kind']}.{group}" if slash else str(thing["kind"])


def exact_set(name: str, namespace: str, objects: Iterable[Object], sources: tuple[str, ...] = ()) -> ApplySet:
    """Return the set that consists of these objects, written by this gpuctl: its state after apply and prune.

    Objects are as sent, with their namespaces. The namespace of a cluster-scoped object is ignored (``addResource``).
    """
    kinds, namespaces = set(), set()
    for obj in objects:
        kinds.add(group_kind(obj))
        resource = RESOURCES.get(obj["kind"])
        if resource is None or resource.namespaced:
            namespaces.add(obj["metadata"].get("namespace") or namespace)
    return ApplySet(name, namespace, frozenset(kinds), frozenset(namespaces - {namespace}), sources)


def superset(existing: ApplySet | None, desired: ApplySet) -> ApplySet:
    """Return the set that covers the existing and the desired members; it is written before anything is applied.

    Kinds and namespaces are united as in kubectl (``buildParentPatch``, superset). So are the sources: until the prune
    is done there may be members from either.
    """
    if existing is None:
        return desired
    return desired._replace(
        group_kinds=existing.group_kinds | desired.group_kinds,
        namespaces=existing.namespaces | desired.namespaces,
        commit=existing.commit,
        sources=tuple(sorted({*existing.sources, *desired.sources})),
    )


def resources_of(applyset: ApplySet) -> tuple[Resource, ...]:
    """Return the resources to list for a set's members, sorted by name (``AllPrunableResources``).

    kubectl too fails for a kind that the server does not have (``parseKindAnnotation``).

    :raises NotOurSet: this gpuctl does not know a kind; a prune without it would lose members from the set.
    """
    known = {resource.group_kind: resource for resource in RESOURCES.values()}
    unknown = sorted(applyset.group_kinds - known.keys())
    if unknown:
        raise NotOurSet(
            say(
                "the set {set} contains kinds that gpuctl {version} does not support: {kinds}",
                set=applyset.name,
                version=__version__,
                kinds=unknown,
            ),
            say("it was written by {tool}", tool=visible(applyset.tooling)),
        )
    return tuple(known[kind] for kind in sorted(applyset.group_kinds))


def parent_object(applyset: ApplySet, *, existing: Object | None) -> Object:
    """Return the Secret that records a set, based on ``existing`` if there is one.

    Other tools' labels and annotations on the existing Secret stay, and so does its resourceVersion: a concurrent
    change is a conflict. Annotations without a value are removed. :func:`parse_parent` checks whether the Secret may be
    replaced.
    """
    secret: Object = copy.deepcopy(existing) if existing is not None else {"metadata": {}}
    metadata = secret["metadata"]
    metadata.pop("managedFields", None)
    written = {
        TOOLING: applyset.tooling,
        GROUP_KINDS: ",".join(sorted(applyset.group_kinds)),
        NAMESPACES: ",".join(sorted(applyset.namespaces - {applyset.namespace})) or None,
        SOURCES: json.dumps(applyset.sources) if applyset.sources else None,
        COMMIT: json.dumps(applyset.commit._asdict()) if applyset.commit is not None else None,
    }
    annotations = {key: value for key, value in annotations_of(secret).items() if key not in written}
    annotations.update((key, value) for key, value in written.items() if value is not None)
    metadata |= {
        "name": applyset.name,
        "namespace": applyset.namespace,
        "labels": {**labels_of(secret), ID: applyset.id},
        "annotations": annotations,
    }
    return {**secret, "apiVersion": "v1", "kind": "Secret"}


def parse_parent(secret: Object) -> ApplySet:
    """Return the set that a Secret records. The version of gpuctl that wrote it does not matter.

    :raises NotOurSet: in kubectl's order (``fetchParent``): not the parent of a set, another tool's, an id that is not
        this Secret's, damaged annotations.
    """
    key = Key("Secret", secret["metadata"].get("namespace") or "", secret["metadata"]["name"])
    labels, annotations = labels_of(secret), annotations_of(secret)
    if TOOLING not in annotations and ID not in labels:
        raise NotOurSet(
            say("{object} exists and is not the parent of a set", object=key), say("choose another name for the set")
        )
    if TOOLING not in annotations:
        raise _incomplete(key, f"metadata.annotations[{TOOLING}]")
    tooling = annotations[TOOLING]
    if _tool(tooling) != _tool(OUR_TOOLING):
        raise NotOurSet(
            say(
                "the set {set} is managed by {tool}; gpuctl manages only its own sets",
                set=key.name,
                tool=visible(tooling),
            ),
            say("choose another name for the set"),
        )
    if ID not in labels:
        raise _incomplete(key, f"metadata.labels[{ID}]")
    if labels[ID] != set_id(key.name, key.namespace):
        raise NotOurSet(
            say(
                "{object} has another set's id: the label {label} is {value}, and for this name and namespace it is "
                "{id}",
                object=key,
                label=ID,
                value=labels[ID],
                id=set_id(key.name, key.namespace),
            ),
            say("it was renamed or copied from another namespace; choose another name for the set, or delete the copy"),
        )
    return ApplySet(
        key.name,
        key.namespace,
        _group_kinds(key, annotations),
        _entries(key, annotations, NAMESPACES, _namespace) - {key.namespace},
        _sources(key, annotations),
        tooling,
        _commit(key, annotations),
    )


def _tool(tooling: str) -> str:
    """Return the tool without its version: the text before the last slash (``toolingBaseName``)."""
    return tooling.rpartition("/")[0] or tooling


def _group_kinds(key: Key, annotations: dict[str, str]) -> frozenset[str]:
    """Parse the kinds as ``parseKindAnnotation`` does: an empty annotation is an empty set, a missing one an error."""
    if GROUP_KINDS in annotations:
        return _entries(key, annotations, GROUP_KINDS, _kind)
    raise _incomplete(key, f"metadata.annotations[{GROUP_KINDS}]")


def _entries(key: Key, annotations: dict[str, str], name: str, read: Callable[[str], str | None]) -> frozenset[str]:
    """Parse a comma-separated annotation; ``read`` returns None for an invalid entry."""
    text = annotations.get(name)
    if not text:
        return frozenset()
    values = set()
    for entry in text.split(","):
        value = read(entry)
        if value is None:
            raise _damaged(key, name, visible(entry) or say("an empty entry"))
        values.add(value)
    return frozenset(values)


def _kind(text: str) -> str | None:
    return text if _GROUP_KIND.fullmatch(text) else None


def _namespace(text: str) -> str | None:
    return text if is_dns_label(text) else None


def _sources(key: Key, annotations: dict[str, str]) -> tuple[str, ...]:
    if SOURCES not in annotations:
        return ()
    value = _json_of(annotations[SOURCES])
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise _damaged(key, SOURCES, visible(annotations[SOURCES][:80]))
    return tuple(value)


def _commit(key: Key, annotations: dict[str, str]) -> Commit | None:
    if COMMIT not in annotations:
        return None
    commit = parse_commit(_json_of(annotations[COMMIT]))
    if commit is None:
        raise _damaged(key, COMMIT, visible(annotations[COMMIT][:80]))
    return commit


def _json_of(text: str) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _incomplete(key: Key, field: str) -> NotOurSet:
    return NotOurSet(say("{object} is damaged as the parent of a set: it lacks {field}", object=key, field=field))


def _damaged(key: Key, name: str, what: str) -> NotOurSet:
    return NotOurSet(
        say(
            "{object} is damaged: cannot read {what} in its annotation {annotation}",
            object=key,
            what=what,
            annotation=name,
        )
    )
