"""Image references, parsed as kubelets and container runtimes do, and the registry of each.

Source: ``github.com/distribution/reference`` (regexp.go, normalize.go). The API server accepts any text as an image;
the pod then waits for ever with InvalidImageName.
"""

from __future__ import annotations

import re

from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import Sentence, say

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*\Z"
_HOST_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?\Z"
_TAG = r"(?a)\w[\w.-]{0,127}\Z"
_FOREIGN = r"[^A-Za-z0-9._/:@\[\]+-]"
"""Matches a character that no reference has."""
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_DOCKER_HUB = "docker.io"
_LONGEST_PATH = 255


def split_host(name: str) -> tuple[str, str]:
    """Return the registry's host ("" if the name has none) and the rest."""
    first, slash, rest = name.partition("/")
    return (first, rest) if slash and ("." in first or ":" in first or first == "localhost") else ("", name)


def split_reference(image: str) -> tuple[str, str, str]:
    """Return name, tag and digest; tag and digest are "" if absent."""
    name, _, digest = image.partition("@")
    path = name.rpartition("/")[2]
    if ":" in path:
        name, _, tag = name.rpartition(":")
        return name, tag, digest
    return name, "", digest


def image_problem(image: str) -> tuple[Sentence, Sentence | None] | None:
    """Return the problem of an image reference and a correction (or None); None for a legal reference."""
    scheme, mark, rest = image.partition("://")
    if mark and re.match(r"[a-z][a-z0-9+.-]*\Z", scheme):
        further = image_problem(rest)
        problem = say("starts with `{scheme}://`, and an image has no scheme", scheme=scheme)
        return problem, say("write `{text}`", text=rest) if further is None else further[1]
    foreign = re.search(_FOREIGN, image)
    if foreign is not None:
        # Enroot and Pyxis separate the registry with `#`.
        better = re.sub(r"\s*([/:@])\s*", r"\1", re.sub(r"[#\\]", "/", image.strip()))
        problem = say("has the character `{character}`, which no image reference has", character=shorten(foreign[0]))
        is_right = better != image and image_problem(better) is None
        return problem, say("write `{text}`", text=better) if is_right else None
    name, tag, digest = split_reference(image)
    host, path = split_host(name)
    if host and not re.match(_HOST, host):
        return say("names the registry `{host}`, which is not a host name with an optional port", host=host), None
    if ":" in path:
        better = f"{name[: name.index(path)]}{path.partition(':')[0]}:{tag}"
        return say("has more than one tag"), say("write `{text}`", text=better) if re.match(_TAG, tag) else None
    if not re.match(_PATH, path):
        if path != path.lower() and re.match(_PATH, path.lower()):
            better = image.replace(path, path.lower())
            problem = say("has upper-case letters in `{path}`, which no registry accepts", path=path)
            return problem, say("write `{text}`", text=better)
        return say("is not an image reference such as `registry/team/name:tag`"), None
    if len(path) > _LONGEST_PATH or (not host and re.match(r"[a-f0-9]{64}\Z", path)):
        return say("is not the name of an image: at most 255 characters, and no bare digest"), None
    if (tag or image.partition("@")[0].endswith(":")) and not re.match(_TAG, tag):
        return say("has the tag `{tag}`: a tag is at most 128 letters, digits, `_`, `.` and `-`", tag=tag), None
    if "@" in image:
        return _digest_problem(digest)
    return None


def _digest_problem(digest: str) -> tuple[Sentence, Sentence | None] | None:
    algorithm, _, value = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None or not re.match(rf"[0-9a-f]{{{length}}}\Z", value):
        return say("has the digest `{digest}`, which is not `sha256:` and 64 hexadecimal digits", digest=digest), None
    return None


def full_name(name: str) -> str:
    """Return a name with its registry: ``nginx`` -> ``docker.io/library/nginx``. The host is in lower case."""
    host, path = split_host(name)
    host = host.lower()
    if host in ("", "index.docker.io", _DOCKER_HUB):
        host = _DOCKER_HUB
        if path and "/" not in path:
            path = f"library/{path}"
    return f"{host}/{path}"


def is_from(image: str, registry: str) -> bool:
    """Return True if an image is below an allowed prefix: a registry, a directory of one, or a repository.

    The prefix ends at a slash: ``registry.example.com`` does not allow ``registry.example.com.evil``.
    """
    name = full_name(split_reference(image)[0])
    prefix = registry.rstrip("/")
    host, path = split_host(prefix + "/")
    path = path.rstrip("/")
    if host and not path:
        host = host.lower()
        return name.startswith(f"{_DOCKER_HUB if host == 'index.docker.io' else host}/")
    # A path without a host is an organisation of Docker Hub, or one of its official images.
    full = full_name(prefix)
    below = full_name(f"{prefix}/x").removesuffix("x")
    return name == full or name.startswith(below)
