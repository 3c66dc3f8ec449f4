"""An entry in the store: a file with all of it, and beside that a small one with what was changed since.

A changed document alters few texts of a large entry, and all of it once more takes longer to write than such a document
to compile. The small file names the digest of the large one and counts with that alone: where another process has
replaced the large one meanwhile, the small one belongs to nothing and is passed over.
"""

from __future__ import annotations

import json

from gpuctl.incremental.entry import Changes, Entry, from_bytes
from gpuctl.incremental.store import Store

BESIDE = ".changes"
"""What the name of the small file has after that of the large one."""
_SMALL = 8
"""The small file is at most such a part of the large one: changes add up, and are then written with all the rest."""


def read_entry(store: Store, name: str) -> Entry | None:
    """The entry under a name, with what was changed since it was written; None where there is none."""
    kept = store.read(name)
    entry = from_bytes(kept.body, kept.digest) if kept is not None else None
    beside = store.read(name + BESIDE) if entry is not None else None
    if entry is not None and beside is not None:
        _take_up(entry, beside.body)
    return entry


def write_entry(store: Store, name: str, entry: Entry) -> None:
    """Keep an entry: of one that was read only what was changed, as long as that is little."""
    if entry.origin is not None:
        changes = _packed(entry, entry.origin.digest)
        if len(changes) * _SMALL <= entry.origin.size:
            store.write(name + BESIDE, [changes])
            return
    store.write(name, entry.to_bytes())


def _packed(entry: Entry, digest: str) -> bytes:
    """A line of facts, and the texts."""
    keys, texts = entry.changes
    sizes = [[number, len(text)] for number, text in texts.items()]
    facts = {"of": digest, "inputs": entry.head["inputs"], "keys": [*keys.items()], "texts": sizes}
    return b"".join([json.dumps(facts).encode(), b"\n", *texts.values()])


def _take_up(entry: Entry, data: bytes) -> None:
    """Change an entry as the small file says, if it belongs to it."""
    line, _, rest = data.partition(b"\n")
    texts: dict[int, bytes | memoryview] = {}
    start = 0
    try:
        facts = json.loads(line)
        if entry.origin is None or facts["of"] != entry.origin.digest:
            return
        for number, size in facts["texts"]:
            texts[range(entry.head["objects"])[number]] = rest[start : start + size]
            start += size
        keys = {range(len(entry.head["keys"]))[number]: str(key) for number, key in facts["keys"]}
        inputs = facts["inputs"]
    except (ValueError, KeyError, TypeError, IndexError):
        return
    if start == len(rest):
        entry.change(Changes(keys, texts))
        entry.head["inputs"] = inputs
