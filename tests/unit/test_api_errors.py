"""Error messages of the Kubernetes API: sentences without Go structs, raw JSON or HTML pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuctl.kube.api_errors import ApiError, api_error, explanation
from gpuctl.kube.error_text import reason_text

IMMUTABLE = (
    'Invalid value: core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:"", Labels:map[string]string{"a":"b"}}, '
    "Spec:core.PodSpec{Volumes:[]core.Volume(nil)}}: field is immutable"
)


def status(code: int, message: str, reason: str = "", **details: Any) -> ApiError:
    body = {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}
    return api_error(code, json.dumps(body).encode(), {})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (IMMUTABLE, "field is immutable"),
        ('Invalid value: "A": must be lower case', '"A": must be lower case'),
        ("Required value", "Required value"),
        ('Not found: "x"', 'Not found: "x"'),
        ('Unsupported value: "x": supported values: "a", "b"', '"x": supported values: "a", "b"'),
    ],
)
def test_explanation_omits_go_structs(message: str, expected: str) -> None:
    assert explanation(message) == expected


def test_invalid_field_is_named() -> None:
    causes = [{"field": "spec.template", "reason": "FieldValueInvalid", "message": IMMUTABLE}]
    error = status(422, f'Job.batch "x" is invalid: spec.template: {IMMUTABLE}', "Invalid", causes=causes)
    assert error.message == "spec.template: field is immutable"


def test_conflict_names_field_and_manager() -> None:
    message = 'conflict with "kubectl-edit" using v1'
    causes = [{"field": ".spec.ports", "reason": "FieldManagerConflict", "message": message}]
    error = status(409, "Apply failed with 1 conflict", "Conflict", causes=causes)
    assert error.message == "spec.ports is held by kubectl-edit"
    assert error.is_conflict
    assert not error.exists_already


RBAC = 'jobs.batch "x" is forbidden: User "al" cannot delete resource "jobs" in API group "batch" in the namespace "n"'
QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
DEMAND = 'pods "x" is forbidden: failed quota: q: must specify requests.cpu for: main'
SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'


@pytest.mark.parametrize(
    ("message", "quota", "permission"),
    [(RBAC, False, True), (QUOTA, True, False), (DEMAND, False, False), (SECURITY, False, False)],
)
def test_forbidden_errors_are_classified(message: str, quota: bool, permission: bool) -> None:
    error = status(403, message, "Forbidden")
    assert (error.exceeds_quota, error.lacks_permission) == (quota, permission)


def test_missing_permission_names_user_and_resource() -> None:
    assert status(403, RBAC, "Forbidden").message == "user al may not delete jobs.batch in namespace n"


def test_name_of_a_dry_run_pod_is_omitted() -> None:
    assert status(403, SECURITY, "Forbidden").message.startswith('violates PodSecurity "restricted:latest"')


@pytest.mark.parametrize(
    "body", [b"<html><h1>502 Bad Gateway</h1></html>", b"", b"[]", b"\xff\xfe", b'{"kind": "Other"}']
)
def test_body_that_is_not_a_status_is_omitted(body: bytes) -> None:
    error = api_error(502, body, {"Retry-After": "7"})
    assert error.message == "the API server, or a proxy before it, answered with status 502"
    assert error.retry_after == 7
    assert error.is_transient


def test_control_characters_are_escaped_and_length_is_limited() -> None:
    error = status(400, "bad \x1b[31m" + "x" * 5000)
    assert "\x1b" not in error.message
    assert len(error.message) <= 600


def test_handshake_timeout_omits_the_source_location() -> None:
    assert (
        reason_text(TimeoutError("_ssl.c:989: The handshake operation timed out"))
        == "The handshake operation timed out"
    )
