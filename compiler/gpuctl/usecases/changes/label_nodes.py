"""`label node`: set node labels, update pool definitions, and note common mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuctl.acts.node_labels import LabelTerms, NodeChangeReport, label_key_error, label_value_error, set_labels
from gpuctl.acts.pool_membership import update_definitions
from gpuctl.hints import CREATE_POOL
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.names import DEFAULT_POOL, SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.companion_names import config_map_name
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.usecases.documents.change_options import InvalidOptions


def label_nodes(
    session: Session,
    nodes: Iterable[str],
    labels: Mapping[str, str | None],
    settings: Settings,
    terms: LabelTerms,
) -> NodeChangeReport:
    """Set labels of nodes, or delete them (None). A failure for one node does not stop the others; it is in the report.

    :raises InvalidOptions: a key or value is not valid in Kubernetes.
    """
    check_labels(labels)
    report = set_labels(session, nodes, labels, terms)
    if records(settings).pool in labels:
        update_definitions(session, report, settings)
    if report.done:
        report.notes += _notes(session, labels, settings)
    return report


def check_labels(labels: Mapping[str, str | None]) -> None:
    """Check keys and values by Kubernetes' rules.

    :raises InvalidOptions: a key or value is not valid.
    """
    for key, wanted in labels.items():
        mistake = label_key_error(key) or (label_value_error(wanted) if wanted is not None else None)
        if mistake is not None:
            raise InvalidOptions(mistake)


def _notes(session: Session, labels: Mapping[str, str | None], settings: Settings) -> Iterator[str]:
    """Yield notes: jobs do not select on a similar label, or a pool has no definition."""
    gpus, keys = PlatformGpus(settings), records(settings)
    for key, value in labels.items():
        if value is None:
            continue
        if gpus.is_label(key) and not gpus.selects(key):
            yield say(
                "jobs select GPU types by {wanted}, not by {key}: set it too, so that jobs find the node",
                wanted=gpus.key,
                key=key,
            )
        elif key.rpartition("/")[2] == "pool" and key != keys.pool:
            yield say("jobs select pools by {wanted}, not by {key}", wanted=keys.pool, key=key)
        elif key == keys.pool and value not in ("", DEFAULT_POOL):
            try:
                there = session.get(Key("ConfigMap", SYSTEM_NAMESPACE, config_map_name(value)))
            except ApiError:
                continue
            if there is None:
                yield say(
                    "pool {pool} has no definition, only nodes; {command} gives it one", pool=value, command=CREATE_POOL
                )
