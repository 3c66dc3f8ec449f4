"""Access to usage data: the queries of a backend, and the service as one. The database is in ``usage_database``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.display_text import visible
from gpuctl.language.settings import Settings
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.usage.gpu_time import GpuHolder, InvalidLedger, LedgerLine, answered_text, ledger_line
from gpuctl.reading.usage.usage_costs import ModelUse
from gpuctl.reading.usage.usage_records import UsageRange
from gpuctl.usecases.service.service_client import IncompatibleVersions, ServiceClient, ServiceRefusal

PAGE_SIZE = 1000
"""Rows that are read at once."""
_BASE = "/gpu-aggregation"
_KINDS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}


class UsageBackend(Protocol):
    """A source of usage data. All methods raise :class:`ClusterError` with a message for the user."""

    def ledger(self, level: str, asked: UsageRange, step: str, key: str = "", value: str = "") -> Iterator[LedgerLine]:
        """Return the usage of each group.

        :param level: one of :data:`~gpuctl.reading.usage.gpu_time.LEVELS`; ``key``: the label or annotation.
        :param value: only this group (for a workload its uid); "" for all.
        :param step: ``hour``, ``day``, ``week``, ``month``, or ``total`` for one row per group.
        """

    def held_models(self, asked: UsageRange, level: str, key: str) -> list[ModelUse]:
        """Return the GPU-seconds that workloads held of each GPU model.

        :param level: the kind of ``key``, ``label`` or ``annotation``; "" for no key.
        """

    def snapshot(self, cluster: str) -> Mapping[str, Any]:
        """Return the last snapshot of GPU holders, in the form of ``/gpu-aggregation/snapshots/latest``."""

    def waste(self, asked: UsageRange, below: float, settings: Settings) -> Mapping[str, Any]:
        """Return the idle GPUs, in the form of ``/gpu-aggregation/waste``.

        :param below: utilization under which an hour counts as idle, percent.
        :param settings: settings of the platform, for its prices; a service uses its own.
        """

    def clusters(self) -> list[str]:
        """Return the names of clusters, the default first."""

    def keys(self, cluster: str, level: str) -> list[str]:
        """Return the keys of labels or annotations by which usage is collected.

        :param level: ``label`` or ``annotation``.
        """

    def now(self) -> float:
        """Return the time by the clock that dates the data if it is known, otherwise the local time; seconds since
        1970."""

    def close(self) -> None:
        """Close the connection."""


class UsageService:
    """The service. It returns what the owner of the token may see."""

    def __init__(self, service: ServiceClient) -> None:
        self._service = service

    def close(self) -> None:
        self._service.close()

    def ledger(self, level: str, asked: UsageRange, step: str, key: str = "", value: str = "") -> Iterator[LedgerLine]:
        times = {
            **_times(asked),
            "step": step,
            "tz": asked.zone,
        }
        where = {"cluster": asked.cluster, "namespace": asked.namespace, "by": level, "key": key, "value": value}

        def page(number: int) -> Mapping[str, Any]:
            return usage_page(self._ask("ledger", {**times, **where, "page": str(number), "page_size": str(PAGE_SIZE)}))

        try:
            yield from map(ledger_line, rows_of_pages(page))
        except InvalidLedger:
            raise self._service.not_a_service("returned usage in an unknown form") from None

    def held_models(self, asked: UsageRange, level: str, key: str) -> list[ModelUse]:
        query = {
            **_times(asked),
            "cluster": asked.cluster,
            "dimension_type": level,
            "dimension_key": key,
            "page_size": str(PAGE_SIZE),
        }

        def page(number: int) -> Mapping[str, Any]:
            return usage_page(self._ask("workloads/models", {**query, "page": str(number)}))

        try:
            return [model_use(row) for row in rows_of_pages(page)]
        except (InvalidLedger, KeyError, TypeError, ValueError):
            raise self._service.not_a_service("returned usage in an unknown form") from None

    def snapshot(self, cluster: str) -> Mapping[str, Any]:
        found = self._ask("snapshots/latest", {"cluster": cluster})
        if not isinstance(found, dict):
            raise self._service.not_a_service("returned usage in an unknown form")
        return found

    def waste(self, asked: UsageRange, below: float, settings: Settings) -> Mapping[str, Any]:
        query = {**_times(asked), "below": f"{below:g}", "cluster": asked.cluster, "namespace": asked.namespace}
        found = self._ask("waste", query)
        if not isinstance(found, dict):
            raise self._service.not_a_service("returned usage in an unknown form")
        return found

    def now(self) -> float:
        return self._service.server_time()

    def clusters(self) -> list[str]:
        return self._texts("clusters", {})

    def keys(self, cluster: str, level: str) -> list[str]:
        return self._texts("dimension-keys", {"cluster": cluster, "dimension_type": level})

    def _texts(self, path: str, query: Mapping[str, str]) -> list[str]:
        found = self._ask(path, query)
        return [visible(str(text)) for text in found] if isinstance(found, list) else []

    def _ask(self, path: str, query: Mapping[str, str]) -> Any:
        try:
            return self._service.request("GET", f"{_BASE}/{path}", query=query).get("data")
        except IncompatibleVersions:
            raise self._service.not_a_service("does not offer this usage query") from None
        except ServiceRefusal as error:
            # These endpoints return the message in `error` and the kind of error in `message`.
            if error.status == 401:
                raise
            said = visible(str(error.name))
            name = str(error.answer.get("reason") or _KINDS.get(error.status, "Error"))
            raise ServiceRefusal(error.status, name, said, error.hint) from None


def _times(asked: UsageRange) -> dict[str, str]:
    return {"start_time": format_timestamp(asked.start), "end_time": format_timestamp(asked.end)}


def model_use(row: Mapping[str, Any]) -> ModelUse:
    """Return a row of ``/gpu-aggregation/workloads/models``.

    :raises InvalidLedger: it has another form.
    """
    names = (answered_text(row[name]) for name in ("owner_uid", "namespace", "workload_type", "workload_name"))
    value, model = (answered_text(row[name]) for name in ("value", "model"))
    return ModelUse(GpuHolder(*names), value, model, float(row["allocated_gpu_seconds"]))


def rows_of_pages(page: Callable[[int], Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of all pages."""
    number = 1
    while True:
        found = page(number)
        yield from found["data"]
        if number >= found["total_pages"]:
            return
        number += 1


def usage_page(value: Any) -> Mapping[str, Any]:
    """Return the rows and the number of pages of an answer in pages.

    :raises InvalidLedger: it has another form.
    """
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise InvalidLedger
    pages = value.get("total_pages")
    return {"data": value["data"], "total_pages": pages if isinstance(pages, int) else 1}


def is_refused(error: ClusterError) -> bool:
    """Return True if the user may not see the requested data (403)."""
    return isinstance(error, ServiceRefusal) and error.status == 403
