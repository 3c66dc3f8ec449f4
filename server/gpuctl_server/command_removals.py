"""What the command line has deleted, and finished of what killed runs left, as a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuctl.apply.plan.differences import before_and_after
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.run.options import RunOptions
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.masking import redact
from gpuctl.usecases.change_options import PlanOptions
from gpuctl.usecases.compiling import worth_telling
from gpuctl.usecases.deleting import delete_compiled
from gpuctl.usecases.recovering import Unfinished
from gpuctl.usecases.recovering import recover as recover_left
from gpuctl.usecases.removing import delete_pools, delete_quotas
from gpuctl.usecases.service_changes import ToldChange
from gpuctl.usecases.service_documents import SentDocuments, unlike
from gpuctl.usecases.service_recovery import ToldFallback, ToldOutlook, ToldRecovery
from gpuctl_server.access.rights import Wish
from gpuctl_server.changing import changing, left_of
from gpuctl_server.command_changes import (
    Asks,
    Listener,
    bounded,
    carried_out,
    compiled,
    masked_texts,
    refusal_of,
    told_step,
)
from gpuctl_server.command_line import Asked
from gpuctl_server.lookups import demand
from gpuctl_server.submissions import demand_documents


def delete_documents(
    asked: Asked, documents: SentDocuments, keep_labels: bool, run: RunOptions, confirmed: list[str]
) -> ToldChange:
    """Delete what documents stand for."""
    with changing(asked.service, asked.caller) as session:
        submission = compiled(asked, session, documents, PlanOptions())
        asked.touched.extend(submission.titles)
        demand_documents(asked.caller, "delete", submission.documents)
        compilation = submission.wanted.compilation
        found = carried_out(
            asked,
            session,
            confirmed,
            lambda callbacks: delete_compiled(session, compilation, bounded(run), callbacks, keep_labels=keep_labels),
            asked.service.keys,
        )
    return found._replace(diagnostics=worth_telling(compilation), platform=unlike(documents, asked.service.platform))


def delete_pools_by_name(
    asked: Asked, names: list[str], keep_labels: bool, run: RunOptions, confirmed: list[str]
) -> ToldChange:
    """Delete pools; their jobs go on running."""
    for name in names:
        demand(asked.caller, Wish("delete", "pools", pool=name))
    asked.touched.extend(f"pool/{name}" for name in names)
    with changing(asked.service, asked.caller) as session:
        return carried_out(
            asked,
            session,
            confirmed,
            lambda callbacks: delete_pools(
                session, names, asked.service.platform, bounded(run), callbacks, keep_labels=keep_labels
            ),
            asked.service.keys,
        )


def delete_quotas_by_name(asked: Asked, names: list[str], run: RunOptions, confirmed: list[str]) -> ToldChange:
    """Delete quotas; the namespaces that they limit stay."""
    for name in names:
        demand(asked.caller, Wish("delete", "quotas", name))
    asked.touched.extend(f"quota/{name}" for name in names)
    with changing(asked.service, asked.caller) as session:
        return carried_out(
            asked,
            session,
            confirmed,
            lambda callbacks: delete_quotas(session, names, asked.service.platform, bounded(run), callbacks),
            asked.service.keys,
        )


def recoveries(asked: Asked) -> ToldRecovery:
    """What killed runs left."""
    with asked.service.asking(asked.caller) as session:
        return _told(left_of(asked.service, asked.caller, session, asked.namespace))


def recover(asked: Asked, where: str | None, run: RunOptions, confirmed: list[str]) -> ToldRecovery:
    """Finish what killed runs left, as far as it was confirmed."""
    demand(asked.caller, Wish("create", "recoveries", where))
    with changing(asked.service, asked.caller) as session:
        found = left_of(asked.service, asked.caller, session, where)
        asked.touched.extend(str(step.key) for step in found.outlook.steps)
        listener = Listener(asked, confirmed)
        try:
            asked.touched.begin()
            callbacks = listener.callbacks()
            done = recover_left(session, where, asked.service.platform, bounded(run), callbacks, found)
        except Asks:
            return _told(found)._replace(asks=True)
        except ClusterError as error:
            return _told(found)._replace(refusal=refusal_of(error))
    return _told(done)


def _told(found: Unfinished) -> ToldRecovery:
    outlook = found.outlook
    fallbacks = [
        ToldFallback(key, before_and_after(Step("create", key, desired=old), found.keys)[1])
        for key, old in outlook.fallbacks.items()
    ]
    steps = [told_step(step, found.keys) for step in outlook.steps]
    problems = [item._replace(message=redact(item.message)) for item in found.result.problems]
    seen = ToldOutlook(len(outlook.journals), steps, fallbacks, outlook.working)
    return ToldRecovery(seen, found.result.results, problems, masked_texts(found.plan.questions))


REMOVALS: dict[str, Callable[..., Any]] = {
    "delete-documents": delete_documents,
    "delete-pools": delete_pools_by_name,
    "delete-quotas": delete_quotas_by_name,
    "recover": recover,
}
"""Name of a change that takes something away, or finishes that -> what carries it out."""
