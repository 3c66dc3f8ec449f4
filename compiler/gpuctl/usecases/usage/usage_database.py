"""Usage data of the collector's database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpuctl.kube.api_errors import ConfigurationError, NotThere
from gpuctl.language.settings import Settings
from gpuctl.reading.usage.gpu_time import LedgerLine, ledger_line
from gpuctl.reading.usage.price_list import price_list
from gpuctl.reading.usage.usage_costs import ModelUse
from gpuctl.reading.usage.usage_records import UsageRange
from gpuctl.usecases.usage.usage_backends import PAGE_SIZE, model_use, rows_of_pages, usage_page
from gpuctl_usage.answers.held_models import held_models
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.idle_gpu_answers import IdleRule, waste
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.name_answers import cluster_names, cluster_of, dimension_keys
from gpuctl_usage.answers.query_scope import Paging, Unanswerable
from gpuctl_usage.answers.snapshot_answers import latest
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.engines import DatabaseProblem, display_name, url_of
from gpuctl_usage.sums import Level

Found = TypeVar("Found")


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
        namespaces = [asked.namespace] if asked.namespace else None
        cluster = self._cluster(asked.cluster)

        def page(number: int) -> Mapping[str, Any]:
            hours = HoursQuery(
                cluster,
                asked.start,
                asked.end,
                namespaces=namespaces,
                paging=Paging(number, PAGE_SIZE),
                step=StepUnit(step),
                tz=asked.zone,
            )
            return usage_page(self._ask(lambda database: ledger(database, hours, Level(level), key, value=value)))

        return map(ledger_line, rows_of_pages(page))

    def held_models(self, asked: UsageRange, level: str, key: str) -> list[ModelUse]:
        cluster = self._cluster(asked.cluster)
        hours = HoursQuery(cluster, asked.start, asked.end, paging=Paging(1, 2**31), tz=asked.zone)
        return [
            model_use(row)
            for row in usage_page(self._ask(lambda it: held_models(it, hours, Level(level), key)))["data"]
        ]

    def snapshot(self, cluster: str) -> Mapping[str, Any]:
        return self._ask(lambda database: latest(database, self._cluster(cluster)))

    def waste(self, asked: UsageRange, below: float, settings: Settings) -> Mapping[str, Any]:
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

    def now(self) -> float:
        """Return the local time: the database may be a file, without its cluster."""
        return time.time()

    def clusters(self) -> list[str]:
        names = self._names()
        default = self._default_of(names)
        return names if default is None else [default, *(name for name in names if name != default)]

    def keys(self, cluster: str, level: str) -> list[str]:
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
        return self._ask(cluster_names)

    def _default_of(self, names: Sequence[str]) -> str | None:
        """Return the only cluster, otherwise the kubeconfig's; None if neither exists."""
        if self._default is None and len(names) == 1:
            self._default = names[0]
        if self._default is None and names and (uid := self._own_uid()):
            own = self._ask(lambda database: cluster_of(database, uid))
            self._default = None if own is None else own.name
        return self._default

    def _ask(self, question: Callable[[Database], Found]) -> Found:
        try:
            return question(self._database)
        except Unanswerable as error:
            raise NotThere(str(error)) from None
        except DatabaseProblem as error:
            raise ConfigurationError(str(error)) from None


def open_existing_database(address: str) -> Database:
    """Open an existing database.

    :raises ClusterError: it does not exist or cannot be used.
    """
    try:
        _see_that_it_is_there(address)
        return open_database(address)
    except DatabaseProblem as error:
        raise ConfigurationError(str(error)) from None


def _see_that_it_is_there(address: str) -> None:
    """Check that a database file exists: opening a missing SQLite file would create it.

    :raises ClusterError: it does not exist.
    """
    url = url_of(address)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        raise ConfigurationError(
            f"there is no usage database at {display_name(url)}",
            f"`gpuctl usage collect --database {display_name(url)}` begins one; or name another",
        )
