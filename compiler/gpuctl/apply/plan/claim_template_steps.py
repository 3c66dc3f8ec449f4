"""The ResourceClaimTemplates of services that are changed pod by pod: the one before the current stays.

Until the new pods are ready, an old pod that ends is made again, and needs the template that its pod template names. So
does a rollback.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuctl.apply.plan.code_steps import newest_first
from gpuctl.apply.plan.plan import Step
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import SERVICES, Key, Object, key_of
from gpuctl.objects.pod_templates import pod_templates


def kept_template(companions: Iterable[Object], wanted: Collection[Key], main: Step, title: str) -> Step | None:
    """Return the step for a template that the document no longer yields and that stays; None without one.

    :param companions: the live companions of the job.
    """
    if main.live is None or main.key.kind not in SERVICES or main.action == "replace" or main.deletes:
        return None
    templates = {obj["metadata"]["name"]: obj for obj in companions if obj["kind"] == "ResourceClaimTemplate"}
    specs = (template["spec"] for template, _ in pod_templates(main.live))
    used = {claim.get("resourceClaimTemplateName") for spec in specs for claim in spec.get("resourceClaims") or []}
    spare = [name for name in newest_first(templates, used) if key_of(templates[name]) not in wanted]
    if not spare:
        return None
    live = templates[spare[0]]
    reason = say("earlier request of GPUs, for pods that run and a rollback")
    return Step("unchanged", key_of(live), reason, live=live, title=title, shared=True)
