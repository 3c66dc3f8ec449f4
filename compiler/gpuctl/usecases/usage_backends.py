"""Access to usage data: the collector's database, or the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gpuctl.kube.api_errors import ClusterError, ConfigurationError, NotThere
from gpuctl.language.display_text import visible
from gpuctl.language.settings import Settings
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.gpu_time import GpuHolder, InvalidLedger, LedgerLine, answered_text, ledger_line
from gpuctl.reading.price_list import price_list
from gpuctl.reading.usage_costs import ModelUse
from gpuctl.reading.usage_records import UsageRange
from gpuctl.usecases.service_client import IncompatibleVersions, ServiceClient, ServiceRefusal

if TYPE_CHECKING:
    from gpuctl_usage.store.database import Database

Found = TypeVar("Found")
_PAGE = 1000
_BASE = "/gpu-aggregation"
_KINDS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}


class UsageBackend(Protocol):
    """A source of usage data. All methods raise :class:`ClusterError` with a message for the user."""

    def ledger(self, level: str, asked: UsageRange, step: str, key: str = "", value: str = "") -> Iterator[LedgerLine]:
        """Return the usage of each group.

        :param level: one of :data:`~gpuctl.reading.gpu_time.LEVELS`; ``key``: the label or annotation.
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

    def close(self) -> None:
        """Close the connection."""


class UsageDatabase:
    """The collector's database."""

    def __init__(self, address: str, own_uid: Callable[[], str | None] = lambda: None) -> None:
        """Open the database.

        :param own_uid: return the uid of the default cluster if the database has several; None if no cluster can be
            read.
        :raises ClusterError: the database does not exist or cannot be used.
        """
        self._database = open_existing_database(address)
        self._own_uid = own_uid
        self._default: str | None = None

    def close(self) -> None:
        self._database.close()

    def ledger(self, level: str, asked: UsageRange, step: str, key: str = "", value: str = "") -> Iterator[LedgerLine]:
        from gpuctl_usage.answers.hourly_answers import HoursQuery
        from gpuctl_usage.answers.ledger_answers import ledger
        from gpuctl_usage.answers.query_scope import Paging
        from gpuctl_usage.answers.steps import StepUnit
        from gpuctl_usage.sums import Level

        namespaces = [asked.namespace] if asked.namespace else None
        cluster = self._cluster(asked.cluster)

        def page(number: int) -> Mapping[str, Any]:
            hours = HoursQuery(
                cluster,
                asked.start,
                asked.end,
                namespaces=namespaces,
                paging=Paging(number, _PAGE),
                step=StepUnit(step),
                tz=asked.zone,
            )
            return _page(self._ask(lambda database: ledger(database, hours, Level(level), key, value=value)))

        return map(ledger_line, _rows(page))

    def held_models(self, asked: UsageRange, level: str, key: str) -> list[ModelUse]:
        from gpuctl_usage.answers.held_models import held_models
        from gpuctl_usage.answers.hourly_answers import HoursQuery
        from gpuctl_usage.answers.query_scope import Paging
        from gpuctl_usage.sums import Level

        cluster = self._cluster(asked.cluster)
        hours = HoursQuery(cluster, asked.start, asked.end, paging=Paging(1, 2**31), tz=asked.zone)
        return [
            _model_use(row) for row in _page(self._ask(lambda it: held_models(it, hours, Level(level), key)))["data"]
        ]

    def snapshot(self, cluster: str) -> Mapping[str, Any]:
        from gpuctl_usage.answers.snapshot_answers import latest

        return self._ask(lambda database: latest(database, self._cluster(cluster)))

    def waste(self, asked: UsageRange, below: float, settings: Settings) -> Mapping[str, Any]:
        from gpuctl_usage.answers.waste_answers import IdleRule, waste

        return self._ask(
            lambda database: waste(
                database,
                self._cluster(asked.cluster),
                asked.start,
                asked.end,
                prices=price_list(settings.platform.usage.prices),
                rule=IdleRule(below=below),
                namespaces=[asked.namespace] if asked.namespace else None,
            )
        )

    def clusters(self) -> list[str]:
        names = self._names()
        default = self._default_of(names)
        return names if default is None else [default, *(name for name in names if name != default)]

    def keys(self, cluster: str, level: str) -> list[str]:
        from gpuctl_usage.answers.name_answers import dimension_keys
        from gpuctl_usage.sums import Level

        return self._ask(lambda database: dimension_keys(database, self._cluster(cluster), Level(level)))

    def _cluster(self, name: str) -> str:
        """Return the name, or for "" the default cluster's; "" if the database has no cluster yet.

        :raises NotThere: no name is given, and no default can be chosen among several clusters.
        """
        names = [] if name else self._names()
        default = name or self._default_of(names)
        if default is None and names:
            raise NotThere(
                f"the database has the usage of {len(names)} clusters, and none of them is that of the kubeconfig",
                f"name one with --cluster: {', '.join(names)}",
            )
        return default or ""

    def _names(self) -> list[str]:
        from gpuctl_usage.answers.name_answers import cluster_names

        return self._ask(cluster_names)

    def _default_of(self, names: Sequence[str]) -> str | None:
        """Return the only cluster, otherwise the kubeconfig's; None if neither exists."""
        if self._default is None and len(names) == 1:
            self._default = names[0]
        if self._default is None and names and (uid := self._own_uid()):
            from gpuctl_usage.answers.name_answers import cluster_of

            own = self._ask(lambda database: cluster_of(database, uid))
            self._default = None if own is None else own.name
        return self._default

    def _ask(self, question: Callable[[Database], Found]) -> Found:
        from gpuctl_usage.answers.query_scope import Unanswerable
        from gpuctl_usage.store.engines import DatabaseProblem

        try:
            return question(self._database)
        except Unanswerable as error:
            raise NotThere(str(error)) from None
        except DatabaseProblem as error:
            raise ConfigurationError(str(error)) from None


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
            return _page(self._ask("ledger", {**times, **where, "page": str(number), "page_size": str(_PAGE)}))

        try:
            yield from map(ledger_line, _rows(page))
        except InvalidLedger:
            raise self._service.not_a_service("returned usage in an unknown form") from None

    def held_models(self, asked: UsageRange, level: str, key: str) -> list[ModelUse]:
        query = {
            **_times(asked),
            "cluster": asked.cluster,
            "dimension_type": level,
            "dimension_key": key,
            "page_size": str(_PAGE),
        }

        def page(number: int) -> Mapping[str, Any]:
            return _page(self._ask("workloads/models", {**query, "page": str(number), "page_size": str(_PAGE)}))

        try:
            return [_model_use(row) for row in _rows(page)]
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


def _model_use(row: Mapping[str, Any]) -> ModelUse:
    names = (answered_text(row[name]) for name in ("owner_uid", "namespace", "workload_type", "workload_name"))
    value, model = (answered_text(row[name]) for name in ("value", "model"))
    return ModelUse(GpuHolder(*names), value, model, float(row["allocated_gpu_seconds"]))


def _rows(page: Callable[[int], Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of all pages."""
    number = 1
    while True:
        found = page(number)
        yield from found["data"]
        if number >= found["total_pages"]:
            return
        number += 1


def _page(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise InvalidLedger
    pages = value.get("total_pages")
    return {"data": value["data"], "total_pages": pages if isinstance(pages, int) else 1}


def open_existing_database(address: str) -> Database:
    """Open an existing database.

    :raises ClusterError: it does not exist or cannot be used.
    """
    from gpuctl_usage.store.database import open_database
    from gpuctl_usage.store.engines import DatabaseProblem

    try:
        _see_that_it_is_there(address)
        return open_database(address)
    except DatabaseProblem as error:
        raise ConfigurationError(str(error)) from None


def _see_that_it_is_there(address: str) -> None:
    """Check that a database file exists: opening a missing SQLite file would create it.

    :raises ClusterError: it does not exist.
    """
    from gpuctl_usage.store.engines import display_name, url_of

    url = url_of(address)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        raise ConfigurationError(
            f"there is no usage database at {display_name(url)}",
            f"`gpuctl usage collect --database {display_name(url)}` begins one; or name another",
        )


def is_refused(error: ClusterError) -> bool:
    """Return True if the user may not see the requested data (403)."""
    return isinstance(error, ServiceRefusal) and error.status == 403
