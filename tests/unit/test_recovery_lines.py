"""Differences that `gpuctl recover` prints for the object that it falls back to."""

from __future__ import annotations

import pytest

from gpuctl.api.recovery_answers import recoveries
from gpuctl.apply.run.recovery import Recovery, RecoveryOutcome
from gpuctl.apply.run.recovery_plan import RecoveryPlan
from gpuctl.cli.output.plan_lines import fallback_text
from gpuctl.cli.output.recovery_lines import show_recovery
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object, key_of
from gpuctl.objects.ownership_metadata import records

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


def test_line_of_a_failed_object_says_failed(capsys: pytest.CaptureFixture[str]) -> None:
    results = [
        RecoveryOutcome(Key("Job", "ml", "a"), "new", "the new object was created"),
        RecoveryOutcome(Key("Job", "ml", "b"), "failed", "quota exceeded"),
    ]
    answer = recoveries(RecoveryPlan(), Recovery(results), [], records(Settings()))
    show_recovery(answer, dry_run=False, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "job.batch/a in ml: the new object was created",
        "job.batch/b in ml: failed: quota exceeded",
    ]
