"""How events and conditions are told as evidence."""

from __future__ import annotations

from gpuctl.cluster.resources import Object
from gpuctl.reading.events import event_time
from gpuctl.reading.status import sentence
from gpuctl.reading.why.finding import Source


def source(event: Object) -> Source:
    """An event as evidence."""
    about = event.get("involvedObject") or {}
    text = f"{event.get('reason') or ''}: {sentence(event.get('message'))}"
    return Source("event", f"{(about.get('kind') or '').lower()}/{about.get('name')}", text, event_time(event) or None)


def condition_source(obj: Object, kind: str) -> Source | None:
    """A condition of an object, whatever its status, as evidence."""
    for item in (obj.get("status") or {}).get("conditions") or []:
        if item.get("type") == kind:
            parts = [f"{kind}={item.get('status')}", item.get("reason") or "", sentence(item.get("message"))]
            text = ": ".join(part for part in parts if part)
            return Source("condition", title(obj), text, item.get("lastTransitionTime"))
    return None


def title(obj: Object) -> str:
    """``pod/train-x1``."""
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"


def sources(*found: Source | None) -> tuple[Source, ...]:
    """Those that there are, each once."""
    return tuple(dict.fromkeys(item for item in found if item is not None))
