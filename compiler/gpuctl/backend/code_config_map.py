"""Lowers ``code.local`` to a ConfigMap with the packed files, and an init container that unpacks them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata
from gpuctl.backend.variables import literal_text, literal_value
from gpuctl.frontend.code_problem import CodeProblem
from gpuctl.frontend.document import Document
from gpuctl.frontend.local_code import local_code
from gpuctl.language.code_block import CODE_DIRECTORY
from gpuctl.language.kinds import Job
from gpuctl.objects.api_resources import Object
from gpuctl.objects.companion_names import ARCHIVE_KEY, ARCHIVE_VOLUME, FILES_KEY, code_name

Data = dict[str, Any]

_DIRECTORY = "/etc/gpuctl/code"
_LOCAL, _SHA256 = "GPUCTL_CODE_LOCAL", "GPUCTL_CODE_SHA256"
PATH_VARIABLE = "GPUCTL_CODE_PATH"

# The volume survives a restart of the container, so it is emptied first. With umask 0, a program that runs as another
# user can write to the files, and tar keeps the modes of the archive whichever user it runs as.
EMPTY_DIRECTORY = f"""\
set -eu
umask 0
cd {CODE_DIRECTORY}
rm -rf ./* ./.[!.]* ./..?*
"""
UNPACK = f"""\
{EMPTY_DIRECTORY}\
tar -xzf {_DIRECTORY}/{ARCHIVE_KEY}
echo "gpuctl: the code is ${_LOCAL}, SHA-256 ${_SHA256}"
"""


def code_digest(document: Document) -> str:
    """Return the hash of the files of ``code.local``; "" without them."""
    found = local_code(document)
    if found is None or isinstance(found, CodeProblem):
        return getattr(getattr(document.model, "code", None), "sha256", None) or ""
    return found.sha256


def config_map(context: Context, document: Document, model: Job) -> Iterator[Object]:
    """Yield the ConfigMap with the files; none for a stored document, whose ConfigMap exists."""
    found = local_code(document)
    if found is None or isinstance(found, CodeProblem):
        return
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            code_name(model.job.name, found.sha256), document.namespace, identity_labels(context, document, model)
        ),
        # The archive cannot be reviewed, and the list shows which files differ.
        "data": {FILES_KEY: "".join(f"{digest}  {path}\n" for path, digest in found.files.items())},
        "binaryData": {ARCHIVE_KEY: base64.b64encode(found.data).decode()},
    }


def archive_volume(document: Document, model: Job) -> Object:
    """Return the volume with the packed files."""
    return {"name": ARCHIVE_VOLUME, "configMap": {"name": code_name(model.job.name, code_digest(document))}}


def archive_mount() -> Object:
    """Return the mount of the packed files in the init container."""
    return {"name": ARCHIVE_VOLUME, "mountPath": _DIRECTORY, "readOnly": True}


def archive_variables(document: Document, model: Job) -> list[Object]:
    """Return the variables of the init container, from which the document is lifted."""
    assert model.code is not None
    texts = ((_LOCAL, model.code.local or ""), (_SHA256, code_digest(document)), (PATH_VARIABLE, model.code.path or ""))
    return [literal_value(name, text) for name, text in texts]


def lift_archive(variables: dict[str, Object]) -> Data:
    """Return the ``code:`` block with ``local``; empty without it."""
    texts = {name: literal_text(variables.get(name)) for name in (_LOCAL, _SHA256, PATH_VARIABLE)}
    if not texts[_LOCAL] or not texts[_SHA256]:
        return {}
    data: Data = {"local": texts[_LOCAL], "sha256": texts[_SHA256]}
    return {**data, "path": texts[PATH_VARIABLE]} if texts[PATH_VARIABLE] else data
