"""Numeric fields of a pod are limited to the API server's ranges, both ends included, at every path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuctl.backend.pod_validation import check_pod

MAX_INT32 = 2**31 - 1
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HANDLERS = (*PROBES, "lifecycle.postStart", "lifecycle.preStop")


def field_ranges() -> Iterator[tuple[str, int, int]]:
    """Yield path, minimum and maximum from pkg/apis/core/validation of Kubernetes."""
    yield "activeDeadlineSeconds", 1, MAX_INT32
    yield "terminationGracePeriodSeconds", 0, 2**63 - 1
    for field in ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups[]"):
        yield f"securityContext.{field}", 0, MAX_INT32
    for field in ("maxSkew", "minDomains"):
        yield f"topologySpreadConstraints[].{field}", 1, MAX_INT32
    for affinity in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        yield f"affinity.{affinity}.{PREFERRED}[].weight", 1, 100
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        yield f"volumes[].{source}.defaultMode", 0, 0o777
    for source in ("configMap", "secret", "downwardAPI"):
        yield f"volumes[].{source}.items[].mode", 0, 0o777
    for source in ("configMap", "secret"):
        yield f"volumes[].projected.sources[].{source}.items[].mode", 0, 0o777
    yield "volumes[].projected.sources[].serviceAccountToken.expirationSeconds", 600, 2**32
    for container in ("containers[]", "initContainers[]"):
        yield f"{container}.ports[].containerPort", 1, 65535
        yield f"{container}.ports[].hostPort", 0, 65535
        for field in ("runAsUser", "runAsGroup"):
            yield f"{container}.securityContext.{field}", 0, MAX_INT32
        for probe in PROBES:
            for field in ("initialDelay", "timeout", "period"):
                yield f"{container}.{probe}.{field}Seconds", 0, MAX_INT32
            for field in ("successThreshold", "failureThreshold"):
                yield f"{container}.{probe}.{field}", 0, MAX_INT32
            yield f"{container}.{probe}.terminationGracePeriodSeconds", 1, 2**63 - 1
        for handler in HANDLERS:
            for kind in ("httpGet", "tcpSocket", "grpc"):
                yield f"{container}.{handler}.{kind}.port", 1, 65535


def pod_with_value(path: str, value: int) -> dict[str, Any]:
    """Return a pod spec with only one number, at the given path."""
    inner: Any = value
    for step in reversed(path.split(".")):
        name, is_list = step.removesuffix("[]"), step.endswith("[]")
        inner = {name: [inner] if is_list else inner}
    return dict(inner)


@pytest.mark.parametrize(("path", "least", "most"), list(field_ranges()), ids=[path for path, *_ in field_ranges()])
def test_numeric_field_accepts_exactly_its_range(path: str, least: int, most: int) -> None:
    place = tuple(part for step in path.split(".") for part in ((step[:-2], 0) if step.endswith("[]") else (step,)))

    def refused(value: int) -> list[str]:
        messages = [problem.message for problem in check_pod(pod_with_value(path, value)) if problem.path == place]
        return [text for text in messages if text.startswith("must be at") or "is not a file mode" in text]

    assert (refused(least), refused(most)) == ([], [])
    for value, bound in ((least - 1, f"at least {least}"), (most + 1, f"at most {most}")):
        mode = f"{value:#o} is not a file mode between 0 and 0777"
        assert refused(value) == [mode if most == 0o777 else f"must be {bound}, got {value}"]
