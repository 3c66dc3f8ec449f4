"""Differences that `gpuctl recover` prints for the object that it falls back to."""

from __future__ import annotations

from gpuctl.cli.output.plan_lines import fallback_text
from gpuctl.objects.api_resources import Object, key_of

METADATA = {"name": "train", "namespace": "ml"}


def _job(container: Object, **spec: object) -> Object:
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": METADATA, "spec": {**spec, "template": template}}


def test_field_order_is_not_a_difference() -> None:
    """The API server sorts the fields of an object; documents keep their own order."""
    new = _job({"name": "main", "image": "train:2", "command": ["a", "b"]}, backoffLimit=0)
    old = _job({"command": ["a", "b"], "image": "train:1", "name": "main"})
    old["spec"] = {"template": old["spec"]["template"], "backoffLimit": 0, "completions": 2}
    lines = "".join(fallback_text(key_of(new), new, old)).splitlines()
    changed = [line.replace(" ", "") for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert sorted(changed) == ["+completions:2", "+image:train:1", "-image:train:2"]
