"""What the document inside a live object asked for: the third side of a comparison that the server takes no part in.

``managedFields`` cannot be it: the server writes its defaults down as ours.
"""

from __future__ import annotations

import json
from typing import Any

from gpuctl.apply.state.compare import Tree, item_key
from gpuctl.backend.api_resources import Object
from gpuctl.backend.embedded_document import document_of
from gpuctl.language.settings import Settings


def former_fields(live: Object, settings: Settings) -> Tree | None:
    """The fields that an object's own document states, lowered as today; None when it has no document that is valid."""
    # The compiler: what only reads a cluster imports this module, and never comes here.
    from gpuctl.backend.context import Context
    from gpuctl.backend.lower import lower
    from gpuctl.frontend.binder import bind
    from gpuctl.frontend.document import Document
    from gpuctl.frontend.linker import link
    from gpuctl.frontend.reader import read
    from gpuctl.frontend.source import Source

    data = document_of(live, settings.label("document"))
    for raw in read(Source("live", json.dumps(data)), []) if data is not None else ():
        bound = bind(raw, [])
        if bound is None or bound.model is None:
            return None
        document = Document(bound.kind, bound.model, raw.chunk, raw.number)
        list(link([document], settings, live["metadata"]["namespace"], complete=False))
        for lowered in lower(Context(settings), [document]):
            if lowered.object["kind"] == live["kind"]:
                return fields_of(lowered.object)
    return None


def fields_of(obj: Object) -> Tree:
    """All fields of an object, in the form of ``managedFields[].fieldsV1``."""
    return _fields(obj, "")


def _fields(value: Any, field: str) -> Tree:
    if isinstance(value, dict):
        return {f"f:{key}": _fields(below, key) for key, below in value.items()}
    tree: Tree = {}
    for item in value if isinstance(value, list) else ():
        key = item_key(field, item)
        if key is not None:
            tree[f"k:{json.dumps(key)}"] = _fields(item, "")
    return tree
