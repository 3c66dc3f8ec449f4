"""Claims that documents create: they are never changed, and stay when the jobs that mount them are deleted."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.apply.plan.decision_inputs import Target
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.hints import kubectl_line
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import CLAIM, WORKLOADS, Key, Object
from gpuctl.objects.ownership_metadata import Records, is_ours, is_shared
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.quantities import parse_quantity


def existing_claim(target: Target, live: Object) -> Step:
    """Return a step without changes. Its reason lists how the claim differs from the document, if it does."""
    differences = list(_differences(target.desired["spec"], live.get("spec") or {}))
    reason = say("has {differences:and}", differences=differences) if differences else ""
    return Step("unchanged", target.key, reason, desired=target.desired, live=live, title=target.title, shared=True)


def _differences(wanted: Object, live: Object) -> Iterator[str]:
    size, has = wanted["resources"]["requests"]["storage"], (live.get("resources") or {}).get("requests") or {}
    if parse_quantity(has.get("storage", "0")) != parse_quantity(size):
        yield say("the size {has}, not {size}", has=has.get("storage", "0"), size=size)
    storage_class = wanted.get("storageClassName")
    if storage_class not in (None, live.get("storageClassName")):
        yield say(
            "the class {has}, not {storage_class}",
            has=live.get("storageClassName") or say("of no name"),
            storage_class=storage_class,
        )
    modes = live.get("accessModes") or []
    if not set(wanted["accessModes"]) <= set(modes):
        yield say("the access {modes:few}, not {wanted:few}", modes=modes, wanted=wanted["accessModes"])


def note_existing_claims(plan: Plan) -> None:
    """Note the claims that differ from their documents."""
    for step in plan.steps:
        if step.key.kind == CLAIM and step.action == "unchanged" and step.reason:
            plan.notes.append(
                say("{key} {reason}: gpuctl does not change claims that exist", key=step.key, reason=step.reason)
            )


def note_kept_claims(session: Session, plan: Plan, keys: Records) -> None:
    """Note the claims made by gpuctl that stay when the jobs which mount them are deleted."""
    leaving = [step for step in plan.steps if step.action in ("delete", "prune") and step.key.kind in WORKLOADS]
    mounted = {key for step in leaving if step.live is not None for key in _mounted(step.live)}
    named = sorted(mounted - {step.key for step in plan.steps})
    found = session.each(lambda key: if_allowed(lambda: session.get_metadata(key), None), named)
    kept = [key for key, claim in zip(named, found, strict=True) if claim and is_ours(claim) and is_shared(claim, keys)]
    for namespace in sorted({key.namespace for key in kept}):
        names = [key.name for key in kept if key.namespace == namespace]
        command = kubectl_line("delete pvc", *names, f"-n {namespace}")
        plan.notes.append(
            say(
                "the {number:claim stays/claims stay} with the data: {names:few} in {namespace}; {command} deletes "
                "that",
                number=len(names),
                names=names,
                namespace=namespace,
                command=command,
            )
        )


def _mounted(workload: Object) -> Iterator[Key]:
    """Yield the claims that the pods of a workload mount."""
    for template, _ in pod_templates(workload):
        for volume in template["spec"].get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name is not None:
                yield Key(CLAIM, workload["metadata"]["namespace"], name)
