"""The types of paths, and of file modes.

See :mod:`gpuctl.language.fields`.
"""

from __future__ import annotations

import posixpath
import re
from typing import Annotated

from gpuctl.language.display_text import shorten
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Check, Scalar, cached, no_variables
from gpuctl.language.sentences import Template, say

OBJECT_STORAGE = Template(
    "object storage is not mounted: copy from it in `init`, or use `pvc` with a claim of its driver"
)


@cached
def _absolute_path(value: str) -> str:
    """Check a path to mount. The API server silently accepts relative paths and a ``:``; the kubelet does not."""
    if not value.startswith("/"):
        text = normal_path(f"/{value}")
        is_right = text != "/" and ":" not in text and text.isprintable()
        better = no_variables(value) or (say("write `{text}`", text=text) if is_right else None)
        if re.match(r"(?:s3a?|oss|obs|cos|tos|gs)://", value):
            better = say(OBJECT_STORAGE)
        if value.startswith("~"):
            better = say(
                "write the whole path, such as `/home/NAME{rest}`: no shell replaces `~`", rest=value.lstrip("~")
            )
        raise field_error("GPU210", say("`{value}` is not an absolute path", value=shorten(value)), better)
    if ".." in value.split("/"):
        raise field_error(
            "GPU210",
            say("`{value}` contains `..`", value=shorten(value)),
            say("write `{text}`", text=posixpath.normpath(value)),
        )
    if ":" in value:
        raise field_error("GPU210", say("`{value}` contains `:`, which no kubelet mounts", value=shorten(value)))
    if not value.isprintable() and any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise field_error("GPU210", say("the path contains a control character"))
    if len(value.encode()) > 4096:
        raise field_error("GPU210", say("the path is longer than 4096 bytes"))
    normal = normal_path(value)
    if normal == "/":
        raise field_error("GPU210", say("the path is `/`"), say("name a directory below it"))
    if value not in (normal, normal + "/"):
        raise field_error(
            "GPU210",
            say("`{value}` is not a normalised path", value=shorten(value)),
            say("write `{text}`", text=normal),
        )
    return value


@cached
def normal_path(value: str) -> str:
    """Return a normalised path: ``/home/data/`` -> ``/home/data``. Two leading slashes become one."""
    return "/" + posixpath.normpath(value).lstrip("/")


def _relative_path(value: str) -> str:
    """Check a volume's ``subPath``: relative and inside the volume, as the API server requires too."""
    if value.startswith("/") or ".." in value.split("/") or not value:
        raise field_error("GPU210", say("`{value}` is not a relative path inside the volume", value=shorten(value)))
    return value


_PRINTED_MODES = {
    str(int(text, 8)): text
    for text in ("0400", "0440", "0444", "0555", "0600", "0640", "0644", "0660", "0664", "0700", "0755", "0775", "0777")
}
"""Usual modes by their decimal value, which manifests and kubectl have: ``defaultMode: 420`` is 0644."""


def _file_mode(value: str) -> str:
    # YAML 1.1 reads 0644 as octal and 644 as decimal; the text has one meaning only with the zero.
    if re.fullmatch(r"(?a)0[0-7]{3}", value) is None:
        better = _PRINTED_MODES.get(value, f"0{value.removeprefix('0o')}")
        hint = say("write `{text}`", text=better) if re.fullmatch(r"(?a)0[0-7]{3}", better) else no_variables(value)
        raise field_error(
            "GPU206", say("`{value}` is not an octal file mode such as `0644`", value=shorten(value)), hint
        )
    return value


@cached
def _url_path(value: str) -> str:
    if not value.startswith("/"):
        is_right = value.isprintable() and " " not in value and ":" not in value and value not in ("true", "yes")
        hint = say("write `{text}`", text=f"/{value}") if is_right else None
        if (url := re.match(r"https?://[^/\s]+(/[^\s]*)\Z", value)) is not None:
            hint = say("write `{text}`", text=url[1])
        hint = hint or say("write a path such as `/health`")
        raise field_error("GPU210", say("`{value}` is not a URL path", value=shorten(value)), hint)
    if " " in value or (
        not value.isprintable() and any(ord(character) <= 32 or ord(character) == 127 for character in value)
    ):
        raise field_error("GPU210", say("the URL path contains a blank or control character"))
    return value


def _route_path(value: str) -> str:
    """Check a path that an Ingress and an HTTPRoute accept.

    Sources: k8s.io/kubernetes pkg/apis/networking/validation, ValidateHTTPIngressPath; the rules of HTTPPathMatch.
    """
    _url_path(value)
    bad = next((part for part in ("//", "/./", "/../", "%2f", "%2F", "#", "?") if part in value), None)
    bad = bad or next((part for part in ("/.", "/..") if value.endswith(part)), None)
    if bad is not None or not value.isascii() or len(value) > 1024:
        message = say(
            "the path `{value}` is not ASCII text of at most 1024 characters, which no route matches",
            value=shorten(value),
        )
        if bad is not None:
            message = say(
                "the path `{value}` contains `{part}`, which no route matches", value=shorten(value), part=bad
            )
        raise field_error(
            "GPU210",
            message,
            say("write `/name/name`"),
        )
    return value


AbsolutePath = Annotated[str, Scalar.TEXT, Check(_absolute_path, "absolute path")]
RelativePath = Annotated[str, Scalar.TEXT, Check(_relative_path, "relative path")]
FileMode = Annotated[str, Scalar.TEXT, Check(_file_mode, "octal file mode")]
UrlPath = Annotated[str, Scalar.TEXT, Check(_url_path, "URL path")]
RoutePath = Annotated[str, Scalar.TEXT, Check(_route_path, "URL path of a route")]
