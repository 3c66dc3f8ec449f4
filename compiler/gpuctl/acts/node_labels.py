"""Labels of nodes that users set: merge patches with their own field manager, so that users and pools do not remove
each other's labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuctl.hints import OVERWRITE_LABEL
from gpuctl.kube.api_errors import ApiError, ClusterError, is_outage
from gpuctl.kube.not_found import no_such_node, suggestion
from gpuctl.kube.session import Session
from gpuctl.kube.version_conflicts import retried_on_conflict
from gpuctl.language.display_text import visible
from gpuctl.language.names import is_label_value, is_qualified_name, nearest_label_value
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.language.spelling import suggest_name
from gpuctl.objects.api_resources import RESOURCES, Key, Object, labels_of
from gpuctl.objects.label_names import LABEL_MAX

LABEL_MANAGER = "gpuctl-label"
EMPTY = '""'
"""Text for an empty value."""
_EXPLAINED = 16
"""Maximum number of missing names for which similar ones are searched: for hundreds it does not help, and takes
seconds.
"""


@dataclass(frozen=True)
class NodeChange:
    """The result for one node: ``node`` is its new version, ``before`` its former labels."""

    name: str
    text: str
    node: Object
    before: Mapping[str, str]


@dataclass(frozen=True)
class NodeChangeFailure:
    """The reason why the labels of a node were not changed: an error name for programs and a message for users.

    ``cause`` is the cluster's error, None if no request was made. ``is_outage``: the cluster could not be reached or
    the right is missing. ``hint`` lists similar names.
    """

    name: str
    error: str
    message: str
    is_outage: bool = False
    cause: ClusterError | None = None
    hint: str | None = None

    @property
    def text(self) -> str:
        """Return the message and the hint in one line."""
        if not self.hint:
            return self.message
        # Only nodes that do not exist have a hint.
        return say("there is no node {name}; {hint}", name=visible(self.name), hint=self.hint)


@dataclass
class NodeChangeReport:
    """The results for several nodes; a failure does not stop the others. ``notes`` are warnings. ``written`` are other
    objects that were written, such as definitions of pools.
    """

    done: list[NodeChange] = field(default_factory=list)
    failed: list[NodeChangeFailure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    written: list[Object] = field(default_factory=list)


@dataclass(frozen=True)
class LabelTerms:
    """Options for setting labels. ``overwrite`` replaces other values.

    ``shows(labels)``: return False for a node that does not exist for the caller. ``permits(name, labels)``: may raise
    :class:`UnexpectedNode` for the future labels of a node.
    """

    overwrite: bool = False
    shows: Callable[[Mapping[str, str]], bool] = lambda labels: True
    permits: Callable[[str, Mapping[str, str]], None] = lambda name, labels: None


class UnexpectedNode(Exception):
    """A node is not in the state that a change of it requires."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


def no_such_label(node: str, key: str) -> Sentence:
    """Return the message about a label that a node does not have."""
    return say("node {name} has no label {key}", name=node, key=key)


def label_conflict(node: str, key: str, value: str) -> Sentence:
    """Return the message about a label that has another value."""
    return say("node {name} has {key}={value} already; {hint}", name=node, key=key, value=value, hint=OVERWRITE_LABEL)


def label_key_error(key: str) -> str | None:
    """Return what is wrong with a label's key by Kubernetes' rules (IsQualifiedName); None if it is valid."""
    if is_qualified_name(key):
        return None
    return say(
        "`{key}` is not a legal label key: an optional DNS name and `/`, then at most {most} letters, digits, `-`, `_` "
        "and `.`, a letter or digit at both ends",
        key=key,
        most=LABEL_MAX,
    )


def label_value_error(value: str) -> str | None:
    """Return what is wrong with a label's value by Kubernetes' rules (IsValidLabelValue); None if it is valid."""
    if is_label_value(value):
        return None
    legal = nearest_label_value(value)
    return clauses(
        say(
            "`{value}` is not a legal label value: at most {most} letters, digits, `-`, `_` and `.`, a letter or digit "
            "at both ends",
            value=value,
            most=LABEL_MAX,
        ),
        suggest_name(legal) or "",
    )


def set_labels(
    session: Session, names: Iterable[str], labels: Mapping[str, str | None], terms: LabelTerms
) -> NodeChangeReport:
    """Set labels of nodes, or remove them (None).

    Without ``overwrite`` a label with another value is not changed. A label to remove must exist.
    """

    def wanted(name: str, have: Mapping[str, str]) -> dict[str, str | None]:
        if not terms.shows(have):
            raise missing_node(name)
        after = {key: value for key, value in {**have, **labels}.items() if value is not None}
        terms.permits(name, after)
        for key, value in labels.items():
            if value is None and key not in have:
                raise UnexpectedNode("LabelNotFound", no_such_label(name, key))
            if value is not None and have.get(key, value) != value and not terms.overwrite:
                raise UnexpectedNode("LabelConflict", label_conflict(name, key, have[key]))
        return dict(labels)

    return change_nodes(session, names, wanted, shows=terms.shows)


def change_nodes(
    session: Session,
    names: Iterable[str],
    wanted: Callable[[str, Mapping[str, str]], dict[str, str | None]],
    manager: str = LABEL_MANAGER,
    *,
    shows: Callable[[Mapping[str, str]], bool] = lambda labels: True,
) -> NodeChangeReport:
    """Change labels of nodes.

    :param wanted: returns the wanted labels (None: remove) from a node's name and labels; may raise
        :class:`UnexpectedNode`.
    :param shows: returns True if a node with these labels may be suggested for a name that does not exist.
    """

    return change_each(session, names, lambda key: _change(session, key, wanted, manager), shows=shows)


def change_each(
    session: Session,
    names: Iterable[str],
    change: Callable[[Key], NodeChange],
    *,
    shows: Callable[[Mapping[str, str]], bool] = lambda labels: True,
) -> NodeChangeReport:
    """Change nodes, sixteen at a time.

    :param change: changes the version of a node that it reads; may raise :class:`UnexpectedNode`.
    :param shows: see :func:`change_nodes`.
    """

    def result(name: str) -> NodeChange | NodeChangeFailure:
        try:
            return retried_on_conflict(lambda: change(Key("Node", "", name)))
        except UnexpectedNode as error:
            return NodeChangeFailure(name, error.error, str(error))
        except ClusterError as error:
            reason = (error.reason or "Failed") if isinstance(error, ApiError) else "Unreachable"
            message = say("node {name}: {error}", name=name, error=error.message)
            return NodeChangeFailure(name, reason, message, is_outage(error), error)

    results = session.each(result, dict.fromkeys(names))
    report = NodeChangeReport(
        [item for item in results if isinstance(item, NodeChange)],
        [item for item in results if isinstance(item, NodeChangeFailure)],
    )
    _explain_missing(session, report, shows)
    return report


def missing_node(name: str) -> UnexpectedNode:
    """Return the error for a node that does not exist."""
    return UnexpectedNode("NodeNotFound", no_such_node(name))


def _explain_missing(session: Session, report: NodeChangeReport, shows: Callable[[Mapping[str, str]], bool]) -> None:
    """Add similar names to the failures of nodes that do not exist, if they are few and nodes may be listed."""
    absent = [item for item in report.failed if item.error == "NodeNotFound"]
    if not 0 < len(absent) <= _EXPLAINED:
        return
    try:
        nodes = session.list_objects(RESOURCES["Node"])[0]
    except ApiError:
        return
    there = [node["metadata"]["name"] for node in nodes if shows(labels_of(node))]
    report.failed = [
        replace(item, hint=suggestion(item.name, there)) if item in absent else item for item in report.failed
    ]


def _change(
    session: Session,
    key: Key,
    wanted: Callable[[str, Mapping[str, str]], dict[str, str | None]],
    manager: str,
) -> NodeChange:
    node = session.get(key)
    if node is None:
        raise missing_node(key.name)
    have = dict(labels_of(node))
    labels = wanted(key.name, have)
    changes = {name: value for name, value in labels.items() if have.get(name) != value}
    if not changes:
        return NodeChange(key.name, _change_text(labels, {}), node, have)
    identity = {"uid": node["metadata"]["uid"], "resourceVersion": node["metadata"]["resourceVersion"]}
    changed = session.patch(key, {"metadata": {**identity, "labels": changes}}, manager=manager)
    return NodeChange(key.name, _change_text(labels, {name: have.get(name) for name in changes}), changed, have)


def _change_text(labels: Mapping[str, str | None], before: Mapping[str, str | None]) -> str:
    parts: list[str] = []
    for key, value in labels.items():
        old = before.get(key)
        if key not in before:
            parts.append(say("{label} (unchanged)", label=f"{key}={value}"))
        elif value is None:
            parts.append(say("{key} deleted (was {old})", key=key, old=old or EMPTY))
        else:
            label = f"{key}={value}"
            parts.append(label if old is None else say("{label} (was {old})", label=label, old=old or EMPTY))
    return say("{parts}", parts=parts)
