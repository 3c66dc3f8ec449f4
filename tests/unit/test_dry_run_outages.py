"""Dry-runs that fail because the cluster does, and dry-runs that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gpuctl.api.error_meanings import meaning_of
from gpuctl.apply.plan.dry_run_pods import dry_run_pods
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.server_checks import check
from gpuctl.kube.api_errors import ApiError
from gpuctl.objects.api_resources import Key

OUTAGES = [
    (
        ApiError(500, "InternalError", 'Internal error occurred: failed calling webhook "x.example.com": no endpoints'),
        503,
    ),
    (ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request"), 503),
    (ApiError(502, "", ""), 503),
    (ApiError(429, "TooManyRequests", "storage is (re)initializing"), 429),
]
REFUSALS = [
    ApiError(403, "Forbidden", 'admission webhook "x.example.com" denied the request: no'),
    ApiError(500, "", 'admission webhook "x.example.com" denied the request: no'),
    ApiError(422, "Invalid", 'ConfigMap "a" is invalid: data: Forbidden'),
    ApiError(404, "", ""),
]


class Refusing:
    """A session whose dry-runs fail with an error."""

    def __init__(self, error: ApiError) -> None:
        self._error = error
        self.warnings: dict[str, None] = {}

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [function(item) for item in items]

    def request(self, *of: Any, **options: Any) -> Any:
        return {"status": {"allowed": True}}

    def create(self, obj: Any, *, dry_run: bool) -> Any:
        raise self._error


def step(kind: str, **fields: Any) -> Step:
    key = Key(kind, "team", "a")
    desired = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "team"}, **fields}
    return Step("create", key, desired=desired, method="post")


def checked(kind: str, error: ApiError) -> Plan:
    session: Any = Refusing(error)
    if kind == "ConfigMap":
        plan = Plan([step(kind)])
        check(session, plan)
    else:
        plan = Plan([step(kind, spec={"template": {"spec": {"containers": []}}})])
        dry_run_pods(session, plan, plan.steps, set(), lenient=None)
    return plan


@pytest.mark.parametrize("kind", ["ConfigMap", "Job"])
@pytest.mark.parametrize(("error", "status"), OUTAGES)
def test_outage_during_a_dry_run_is_not_a_refusal(kind: str, error: ApiError, status: int) -> None:
    with pytest.raises(ApiError) as raised:
        checked(kind, error)
    meaning = meaning_of(raised.value)
    assert meaning is not None
    assert (meaning.exit_code, meaning.status) == (3, status)


@pytest.mark.parametrize("kind", ["ConfigMap", "Job"])
@pytest.mark.parametrize("error", REFUSALS)
def test_refused_dry_run_is_an_error_of_the_plan(kind: str, error: ApiError) -> None:
    assert len(checked(kind, error).errors) == 1
