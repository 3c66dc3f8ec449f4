"""Integer ids of groups and of sets of labels and annotations."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Insert, Integer, Table, Text, bindparam, select, tuple_

from gpuctl_usage.facts import WorkloadKey
from gpuctl_usage.store.database_tables import attributes, groups
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.sums import Group, Level


class Attributes(NamedTuple):
    """Labels and annotations of a workload."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def upsert(connection: Connection, table: Table) -> Any:
    """Return an insert of the connection's dialect, which supports ON CONFLICT."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as of_dialect
    else:
        from sqlalchemy.dialects.sqlite import insert as of_dialect  # type: ignore[assignment]
    return of_dialect(table)


def put_rows(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows, or replace those with the same primary key."""
    made = list(rows)
    if not made:
        return
    statement = upsert(connection, table)
    keys = [column.name for column in table.primary_key]
    rest = {name: statement.excluded[name] for name in made[0] if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=rest), made)


def workload_group(key: WorkloadKey) -> Group:
    """Return the group of a workload."""
    return Group(Level.WORKLOAD, f"{key.namespace}/{key.kind}/{key.name}", key.uid)


def workload_of(group: Group) -> WorkloadKey:
    """Return the workload of a group."""
    namespace, kind, name = _name_parts(group)
    return WorkloadKey(namespace, kind, name, group.value)


def _name_parts(group: Group) -> tuple[str, str, str]:
    if group.level is Level.NAMESPACE:
        return group.value, "", ""
    if group.level is not Level.WORKLOAD:
        return "", "", ""
    namespace, _, rest = group.key.partition("/")
    kind, _, name = rest.partition("/")
    return namespace, kind, name


def group_of(row: Any) -> Group:
    """Return the group of a row with the columns level, key and value."""
    return Group(Level(row.level), row.key, row.value)


def group_ids(connection: Connection, cluster: int, wanted: Iterable[Group]) -> dict[Group, int]:
    """Return the ids of groups; add missing groups in the connection's transaction."""
    missing = list(dict.fromkeys(wanted))
    found = _known(connection, cluster, missing)
    new = [group for group in missing if group not in found]
    if new:
        rows = []
        for group in new:
            namespace, kind, name = _name_parts(group)
            row = {"cluster_id": cluster, "level": group.level.value, "key": group.key, "value": group.value}
            rows.append({**row, "namespace": namespace, "kind": kind, "name": name})
        connection.execute(_insert_missing(connection, groups), rows)
        found.update(_known(connection, cluster, new))
    return found


def _known(connection: Connection, cluster: int, wanted: Iterable[Group]) -> dict[Group, int]:
    names: dict[Level, dict[tuple[str, str], Group]] = defaultdict(dict)
    for group in wanted:
        names[group.level][group.key, group.value] = group
    # A level has a hundred times as many groups as an hour: look each one up by its full name.
    given = inline_table(connection, "names", {"key": Text, "value": Text})
    whole = tuple_(groups.c.key, groups.c.value).in_(select(given.c.key, given.c.value))
    named = select(groups.c.id, groups.c.key, groups.c.value).where(
        groups.c.cluster_id == cluster, groups.c.level == bindparam("level"), whole
    )
    found: dict[Group, int] = {}
    for level, of_level in names.items():
        rows = connection.execute(named, {"level": level.value, "names": packed_rows(of_level)}).all()
        found.update((of_level[key, value], number) for number, key, value in rows)
    return found


def workload_keys(connection: Connection, numbers: Iterable[int]) -> dict[int, WorkloadKey]:
    """Return the keys of the workloads whose groups have these ids."""
    given = inline_table(connection, "wanted", {"id": Integer})
    columns = (groups.c[name] for name in ("id", "namespace", "kind", "name", "value"))
    statement = select(*columns).join_from(given, groups, groups.c.id == given.c.id)
    rows = connection.execute(statement, {"wanted": packed_rows(set(numbers))})
    return {number: WorkloadKey(*key) for number, *key in rows}


def _insert_missing(connection: Connection, table: Table) -> Insert:
    statement: Insert = upsert(connection, table).on_conflict_do_nothing()
    return statement


def attribute_ids(connection: Connection, wanted: Iterable[Attributes]) -> list[int]:
    """Return the ids of sets of labels and annotations, in the given order; add missing ones."""
    rows: dict[str, dict[str, str]] = {}
    order = []
    for item in wanted:
        labels, annotations = _text(item.labels), _text(item.annotations)
        digest = hashlib.sha256(f"{labels}\n{annotations}".encode()).hexdigest()
        rows[digest] = {"digest": digest, "labels": labels, "annotations": annotations}
        order.append(digest)
    if not rows:
        return []
    known = _known_attributes(connection, rows)
    new = [row for digest, row in rows.items() if digest not in known]
    if new:
        connection.execute(_insert_missing(connection, attributes), new)
        known.update(_known_attributes(connection, [row["digest"] for row in new]))
    return [known[digest] for digest in order]


def read_attributes(connection: Connection, numbers: Iterable[int]) -> dict[int, Attributes]:
    """Return the labels and annotations with these ids."""
    given = inline_table(connection, "wanted", {"id": Integer})
    statement = select(attributes).join_from(given, attributes, attributes.c.id == given.c.id)
    rows = connection.execute(statement, {"wanted": packed_rows(set(numbers))})
    return {row.id: parse_attributes(row.labels, row.annotations) for row in rows}


def _known_attributes(connection: Connection, digests: Iterable[str]) -> dict[str, int]:
    given = inline_table(connection, "wanted", {"digest": Text})
    statement = select(attributes.c.digest, attributes.c.id).join_from(
        given, attributes, attributes.c.digest == given.c.digest
    )
    rows = connection.execute(statement, {"wanted": packed_rows(digests)})
    return {row.digest: row.id for row in rows}


def parse_attributes(labels: str, annotations: str) -> Attributes:
    """Parse stored labels and annotations."""
    return Attributes(_read(labels), _read(annotations))


def _read(text: str) -> dict[str, str]:
    # Most workloads have no annotations: skip the parser.
    values: dict[str, str] = {} if text == "{}" else json.loads(text)
    return values


def _text(values: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(values.items())), separators=(",", ":"), ensure_ascii=False)
