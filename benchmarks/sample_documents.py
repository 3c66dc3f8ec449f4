"""Documents for benchmarks: all different, of three kinds, with the blocks that most documents have."""

from __future__ import annotations

KINDS = ("training", "inference", "compute")


def document(number: int) -> str:
    """Return document ``number``."""
    kind = KINDS[number % 3]
    lines = [
        f"kind: {kind}",
        "version: v0.1",
        "job:",
        f"  name: job-{number}",
        f"  namespace: team-{number % 20}",
        f"  priority: {('high', 'medium', 'low')[number % 3]}",
        f"  description: number {number}",
        "environment:",
        f"  image: registry.example.com/app-{number}:v{number}",
        f'  command: ["python", "main.py", "--seed", "{number}", "--lr", 2e-{number % 9}]',
        "  env:",
        "    - name: SEED",
        f"      value: {number}",
        "    - name: MODE",
        f"      value: m{number}",
        "resources:",
        f"  gpu: {1 + number % 8 if kind != 'compute' else 0}",
        f"  cpu: {4 + number % 60}",
        f"  memory: {8 + number % 100}Gi",
        "storage:",
        "  workdirs:",
        f"    - path: /data/{number}",
        f"    - path: /models/m{number}",
        "      readOnly: true",
    ]
    if kind != "training":
        lines += ["service:", f"  replicas: {1 + number % 4}", f"  port: {8000 + number % 1000}"]
        lines += ["  health_check: /health"]
    return "\n".join(lines) + "\n"


def stream(count: int) -> str:
    """Return the first ``count`` documents as one YAML stream."""
    return "---\n".join(document(number) for number in range(count))
