"""Commands on several clusters: all plans are made and shown, the user confirms once, then each cluster is changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import click

from gpuctl.api.cluster_answers import clusters_preview_code, clusters_result_code, clusters_value
from gpuctl.apply.plan.cluster_plan import ClusterPlan
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.cli.command_target import set_current_cluster, stated_clusters
from gpuctl.cli.options.change_runner import Invocation, callbacks_of, can_ask_user
from gpuctl.cli.options.connection_options import (
    Progress,
    RefusedFailure,
    UndeterminedFailure,
    cluster_errors,
    open_named_cluster,
)
from gpuctl.cli.output.cluster_lines import heading, show_cluster_plans, show_cluster_results, show_obstacles
from gpuctl.cli.output.printing import show_value
from gpuctl.kube.session import Session
from gpuctl.objects.ownership_metadata import Records
from gpuctl.usecases.changes.several_clusters import PreparedChange, carry_out_each, may_begin, plan_each
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.document_placement import clusters_of_documents, with_buffered_input


def chosen_clusters(documents: DocumentOptions, invocation: Invocation) -> tuple[DocumentOptions, tuple[str, ...]]:
    """Return the clusters that documents are for: those of ``--cluster``, else those that the documents name.

    :returns: the documents, limited to the cluster if there is one, with standard input read if there are several; and
    the names of the clusters.
    """
    with cluster_errors(as_json=invocation.as_json, refusal=invocation.refusal):
        return _chosen(documents)


def _chosen(documents: DocumentOptions) -> tuple[DocumentOptions, tuple[str, ...]]:
    names = stated_clusters()
    if len(names) != 1:
        documents = with_buffered_input(documents)
    names = names or tuple(clusters_of_documents(documents))
    return (replace(documents, cluster=names[0]) if len(names) == 1 else documents), names


class MultiClusterChange:
    """Plans for several clusters, and their sessions."""

    def __init__(self, names: Sequence[str], invocation: Invocation, progress: Progress) -> None:
        self.names = names
        self.invocation = invocation
        self.plans: list[ClusterPlan] = []
        self.prepared: dict[str, PreparedChange] = {}
        self._progress = progress
        self._sessions: list[Session] = []

    @property
    def keys(self) -> dict[str, Records]:
        """The annotation and label keys of each cluster, by its name."""
        return {name: prepared.keys for name, prepared in self.prepared.items()}

    def plan(
        self, documents: DocumentOptions, prepare: Callable[[Session, DocumentOptions, RunCallbacks], PreparedChange]
    ) -> None:
        """Make the plans for all clusters."""
        reported: set[str] = set()
        callbacks = _without_repeats(callbacks_of(self.invocation, self._progress), reported)
        self.plans, self.prepared = plan_each(
            self.names,
            self._opened,
            lambda name, session: prepare(session, replace(documents, cluster=name), callbacks),
        )
        self._progress.clear()

    def carry_out(self) -> int:
        """Ask once, change the clusters one after another, and print the results. Return the exit code."""
        if not may_begin(self.plans):
            if self.invocation.as_json:
                show_cluster_plans(self.plans, "server", as_json=True)
            else:
                for item in self.plans:
                    show_obstacles(item)
            click.echo("no cluster was changed", err=True)
            return clusters_preview_code(self.plans)
        self._ask()

        def begun(item: ClusterPlan) -> None:
            self._progress.clear()
            set_current_cluster(item.name)
            if not self.invocation.as_json:
                click.echo(heading(item))

        try:
            carry_out_each(self.plans, self.prepared, begun)
        finally:
            # The results are printed also after an interrupt.
            self._progress.clear()
            show_cluster_results(self.plans, as_json=self.invocation.as_json)
        return clusters_result_code(self.plans)

    def _ask(self) -> None:
        """Ask the user once to confirm the changes on all clusters.

        :raises ClusterFailure: they are not confirmed, or the user cannot be asked.
        """
        plans = {item.name: item.plan for item in self.plans if item.plan is not None}
        can_ask = can_ask_user()
        asked = [(name, each) for name, plan in plans.items() for each in plan.questions]
        if self.invocation.yes or not (asked or can_ask):
            return
        if can_ask:
            asked = [(name, each) for name, plan in plans.items() for each in (*plan.questions, *plan.courtesies)]
            if not asked:
                return
        for name, question in asked:
            click.echo(f"cluster {name}: {question}", err=True)
        if can_ask and click.confirm("Continue?", default=False, err=True):
            return
        said = "not confirmed" if can_ask else "cannot ask for confirmation: use --yes"
        if self.invocation.as_json:
            show_value(clusters_value(self.plans, error=said), "json")
        raise (RefusedFailure if can_ask else UndeterminedFailure)(f"{said}\n  = no cluster was changed")

    def _opened(self, name: str) -> Session:
        set_current_cluster(name)
        session = open_named_cluster(name, self.invocation.connection, changes=True)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """Close the sessions."""
        self._progress.clear()
        for session in self._sessions:
            session.close()


@contextlib.contextmanager
def multi_cluster_change(names: Sequence[str], invocation: Invocation) -> Iterator[MultiClusterChange]:
    """Yield the plans for several clusters, and turn failures into messages and exit codes."""
    with cluster_errors(as_json=invocation.as_json, refusal=invocation.refusal):
        found = MultiClusterChange(names, invocation, Progress())
        try:
            yield found
        finally:
            found.close()


def _without_repeats(callbacks: RunCallbacks, reported: set[str]) -> RunCallbacks:
    """Return callbacks that report each diagnostic only once."""

    def diagnosed(diagnostics: Sequence[object], sources: object) -> None:
        new = [item for item in diagnostics if str(item) not in reported]
        reported.update(map(str, new))
        callbacks.on_diagnostics(new, sources)  # type: ignore[arg-type]

    return replace(callbacks, on_diagnostics=diagnosed)
