"""The lines of diagnostics about roles, storage, security and the platform's policy."""

from __future__ import annotations

import pytest

import gpuctl

PLATFORM = gpuctl.Source(
    "platform.yaml",
    """
kind: platform
version: v0.1
training: {backend: jobset}
network: {rdma: {resource: rdma/hca, count: 1}}
policy: {capabilities: [IPC_LOCK]}
""",
)


def lines(document: str, code: str) -> list[str]:
    """Return the text of each line at which a document has the error."""
    found = gpuctl.compile(gpuctl.Source("job.yaml", document), platform=PLATFORM).diagnostics
    spans = [diagnostic.span for diagnostic in found if diagnostic.code == code]
    return [document.splitlines()[span.line - 1].strip() for span in spans if span is not None]


@pytest.mark.parametrize(
    ("code", "line", "document"),
    [
        # A role that overrides an earlier variable moves the later ones in its pods' list.
        (
            "GPU220",
            '- {name: NVIDIA_VISIBLE_DEVICES, value: "0"}',
            """
environment:
  image: app:v1
  command: [python, a.py]
  env:
    - {name: A, value: "1"}
    - {name: NVIDIA_VISIBLE_DEVICES, value: "0"}
resources: {cpu: 1, memory: 1Gi}
roles:
  - {name: trainer, resources: {gpu: 1}, env: [{name: A, value: "2"}]}
  - {name: rollout, resources: {gpu: 1}}
""",
        ),
        # The platform's list, which the message repeats, contains the capability that RDMA adds.
        (
            "GPU438",
            "security: {capabilities: {add: [SYS_ADMIN]}}",
            """
environment: {image: "app:v1", command: [python, a.py]}
resources: {cpu: 1, memory: 1Gi, gpu: 1, network: {rdma: true}}
security: {capabilities: {add: [SYS_ADMIN]}}
""",
        ),
        (
            "GPU206",
            "- not a name",
            """
environment: {image: "app:v1", command: [python, a.py]}
security:
  capabilities:
    add: [IPC_LOCK]
    drop:
      - not a name
""",
        ),
    ],
)
def test_error_is_reported_once_at_the_line_of_its_cause(code: str, line: str, document: str) -> None:
    assert lines(f"kind: training\nversion: v0.1\njob: {{name: a}}{document}", code) == [line]


def test_replicas_that_the_autoscaler_ignores_do_not_count_as_several_pods() -> None:
    document = """
kind: inference
version: v0.1
job: {name: chat}
environment: {image: "app:v1", command: [python, a.py]}
resources: {cpu: 1, memory: 1Gi, gpu: 1}
service: {port: 80, replicas: 3}
storage: {workdirs: [{path: /data}]}
autoscaling: {enabled: true, maxReplicas: 1}
"""
    assert lines(document, "GPU422") == []
    assert lines(document.replace("maxReplicas: 1", "maxReplicas: 2"), "GPU422") != []
