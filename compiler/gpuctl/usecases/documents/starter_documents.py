"""`init` and `new`: commented documents to start from."""

from __future__ import annotations

from importlib.resources import files

from gpuctl.apply.plan.pool_labels import known_pools
from gpuctl.compilation import compile
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import Source
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.configuration import session_of
from gpuctl.objects.ownership_metadata import records
from gpuctl.usecases.documents.compiling import read_platform
from gpuctl.usecases.documents.field_setting import edited_text

_PATIENCE = 3.0
"""Seconds that the cluster has for the names of its pools."""
_NO_PLATFORM = Source("platform.yaml", "kind: platform\nversion: v0.1\n")


def starter_document(kind: str, name: str | None = None, fields: dict[str, str] | None = None) -> str:
    """Return a commented, valid document.

    :param name: the name of the job, pool or quota; None keeps the example's.
    :param fields: path -> value, as :func:`gpuctl.usecases.documents.field_setting.set_fields` takes them.
    :raises InvalidDocuments: a value is not valid for its field.
    :raises InvalidOptions: the kind has no such field.
    """
    text = (files("gpuctl.cli") / "starters" / f"{kind}.yaml").read_text(encoding="utf-8")
    if name is not None:
        first = next(line for line in text.splitlines() if line.startswith("  name: "))
        text = text.replace(first, f"  name: {name}", 1)
    if fields:
        source = Source(f"{kind}.yaml", text)
        changed = source._replace(text=edited_text(source, [f"{path}={value}" for path, value in fields.items()]))
        result = compile(changed, platform=_NO_PLATFORM)
        if not result.ok:
            raise InvalidDocuments(result.diagnostics, result.sources)
        text = changed.text
    return text


def pools_to_choose() -> list[str]:
    """Return the pools of the cluster and of platform.yaml; [] if the cluster cannot be read."""
    try:
        settings = read_platform(None).settings
        with session_of(None) as session:
            return sorted(known_pools(session.with_time_limit(_PATIENCE), settings, records(settings)))
    except (ClusterError, InvalidDocuments):
        return []
