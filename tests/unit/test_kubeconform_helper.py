"""The helper ``tests/kubeconform.py`` rejects invalid objects."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.missing_parts import missing

sys.path.append(str(Path(__file__).parents[1]))

from gpuctl.backend.schema_validation import VERSIONS
from gpuctl.language.settings import Settings
from support.go_programs import ProgramMissing
from support.kubeconform import find_kubeconform, run_kubeconform

DEFAULT_VERSION = Settings().kubernetes_version
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: registry.example/train:1
          resources: {limits: {nvidia.com/gpu: "8", memory: 64Gi, cpu: 7500m}}
"""

JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: team}
spec:
  failurePolicy: {maxRestarts: 3}
  replicatedJobs:
    - name: worker
      replicas: 2
      template:
        spec:
          completionMode: Indexed
          template:
            metadata: {labels: {app: train}}
            spec:
              containers: [{name: main, image: "registry.example/train:1"}]
"""


@pytest.fixture(autouse=True)
def kubeconform() -> None:
    """Build kubeconform if needed. Without Go the tests are skipped, except in CI."""
    try:
        find_kubeconform()
    except ProgramMissing as error:
        missing(error)


@pytest.mark.parametrize("version", VERSIONS)
def test_valid_objects_pass(version: str) -> None:
    assert run_kubeconform(f"{JOB}---\n{JOBSET}", version) == []


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        (("image:", "imagee:"), JOB, "additional properties 'imagee' not allowed"),
        (("restartPolicy: Never", "hostNetwork: sometimes"), JOB, "got string, want null or boolean"),
        (("maxRestarts: 3", "maxRestart: 3"), JOBSET, "additional properties 'maxRestart' not allowed"),
    ],
)
def test_invalid_objects_fail(good: tuple[str, str], bad: str, complaint: str) -> None:
    text = bad.replace(*good)
    assert text != bad
    (found,) = run_kubeconform(text, DEFAULT_VERSION)
    assert complaint in found


def test_empty_input_fails() -> None:
    assert run_kubeconform("---\n---\n", DEFAULT_VERSION) == ["kubeconform saw no object"]
