"""The archive of ``code.local``, packed alike on every machine.

Times, owners and modes are fixed and the files sorted, so that equal files give an equal archive. Its hash is that of
the tar file: other builds of zlib compress to other bytes.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import struct
import tarfile
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.frontend.code_files import MAX_PACKED, CodeFile, code_files, size_text, too_much_code
from gpuctl.frontend.code_problem import CodeProblem
from gpuctl.frontend.code_tree import CodeTree
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import say

_MOST_LISTED = 100 * 1024
"""Size of the longest list of files, bytes."""


class CodeArchive(NamedTuple):
    """A packed directory. ``files``: path -> start of the hash of its content. ``directories``: relative to it."""

    data: bytes
    sha256: str
    files: dict[str, str]
    directories: frozenset[str]


def pack(tree: CodeTree, local: str) -> CodeArchive:
    """Return the archive of a directory, without the document's own file: a changed description is no changed code.

    :param local: its path, relative to the source.
    :raises CodeProblem: it cannot be packed.
    """
    try:
        files = code_files(tree, local)
    except OSError as error:
        reason = str(error.strerror or error) + (f" (`{error.filename}`)" if error.filename else "")
        message = say("`{local}` cannot be read: {reason}", local=local, reason=visible(reason))
        raise CodeProblem("GPU236", message, say("correct its permissions, or add the path to `.gitignore`")) from None
    if not files:
        raise CodeProblem(
            "GPU236", say("`{local}` contains no files", local=local), say("name the directory with the code")
        )
    packed = _gzip(data := _tar(files))
    listed = {file.path: hashlib.sha256(file.data).hexdigest()[:12] for file in files}
    if len(packed) > MAX_PACKED or sum(len(path.encode()) + 15 for path in listed) > _MOST_LISTED:
        raise too_much_code(
            local, say("{size} packed in {number} files", size=size_text(len(packed)), number=f"{len(files):,}"), files
        )
    directories = {posixpath.dirname(path) for path in listed}
    parents = {"/".join(path.split("/")[:depth]) for path in directories for depth in range(path.count("/") + 1)}
    return CodeArchive(packed, hashlib.sha256(data).hexdigest(), listed, frozenset(directories | parents | {""}))


def _tar(files: Sequence[CodeFile]) -> bytes:
    buffer = io.BytesIO()
    # Unlike those of the pax format, long names of this format are read by busybox, too.
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as archive:
        for file in files:
            info = tarfile.TarInfo(file.path)
            # Every user may write, as to the code from git: the program may run as any user.
            info.mode = 0o777 if file.entry.is_executable else 0o666
            if file.entry.kind == "link":
                info.type, info.linkname = tarfile.SYMTYPE, file.data.decode("utf-8", "surrogateescape")
                archive.addfile(info)
            else:
                info.size = len(file.data)
                archive.addfile(info, io.BytesIO(file.data))
    return buffer.getvalue()


def _gzip(data: bytes) -> bytes:
    """Return the data in the format of gzip, without a time and the name of a system (RFC 1952)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(data) + packer.flush()
    return b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
