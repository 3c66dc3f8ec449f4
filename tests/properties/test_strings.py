"""A user's text, in any place that takes text and any style of YAML, arrives unchanged in the manifest.

From the text of a document through the compiler and the emitter to PyYAML, ruamel.yaml and kubectl's reader.
"""

from __future__ import annotations

import posixpath
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuctl
from gpuctl.backend.emitter import emit_stream
from gpuctl.frontend.full_width import ASCII
from gpuctl.frontend.platform_restrictions import is_system_path
from gpuctl.language import names
from properties.readers import read_go, read_pyyaml, read_ruamel
from properties.scale import examples, share
from properties.strings import NASTY, STRINGS
from properties.writer import STYLES, write

_REFERENCE = re.compile(r"\{\{\{\{|\{\{[ \t]*(?:job|model|resources|service|environment|storage)[ \t]*\.")
_PLATFORM = gpuctl.Source("platform.yaml", "kind: platform\nversion: v0.1\n")
_ITEM = "- "


class Place(NamedTuple):
    """A place of a document that takes text.

    ``legal`` says which text it takes; ``lines`` are the document's lines with ``@`` for the scalar, ``column`` that
    of the key or dash before it; ``flow`` whether it is in a flow collection; ``read`` finds it in the manifest.
    """

    name: str
    legal: Callable[[str], bool]
    before: str
    column: int
    after: str
    read: Callable[[dict[str, Any]], Any]
    flow: bool = False
    kind: str = "compute"


def _text(text: str) -> bool:
    return "\0" not in text


def _no_reference(text: str) -> bool:
    """Text of a workload, where `{{job.name}}` and `{{{{` mean something."""
    return _text(text) and _REFERENCE.search(text) is None


def _not_blank(text: str) -> bool:
    return _no_reference(text) and text.strip() != ""


def _is_full_width(text: str) -> bool:
    return not text.isascii() and text.translate(ASCII).isascii()


def _label(text: str) -> bool:
    return re.fullmatch(r"(?a)[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?|", text) is not None


def _path(text: str) -> bool:
    if not text.startswith("/") or len(text.encode()) > 4096 or _REFERENCE.search(text):
        return False
    clean = "/" + posixpath.normpath(text).lstrip("/")
    control = any(ord(character) < 32 or ord(character) == 127 for character in text)
    return text == clean != "/" and ".." not in text.split("/") and ":" not in text and not control


def _node_path(text: str) -> bool:
    return _path(text) and not is_system_path(text)


def _relative(text: str) -> bool:
    return _no_reference(text) and text != "" and not text.startswith("/") and ".." not in text.split("/")


def _url_path(text: str) -> bool:
    hidden = any(ord(character) <= 32 or ord(character) == 127 for character in text)
    return text.startswith("/") and not hidden and _no_reference(text)


def _workload(objects: dict[str, Any]) -> Any:
    return next(objects[kind] for kind in ("Deployment", "Job", "StatefulSet") if kind in objects)


def _pod(objects: dict[str, Any]) -> Any:
    return _workload(objects)["spec"]["template"]["spec"]


def _main(objects: dict[str, Any]) -> Any:
    return _pod(objects)["containers"][0]


def _variable(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda objects: next(item for item in _main(objects)["env"] if item["name"] == name)["value"]


def _annotation(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda objects: _workload(objects)["metadata"]["annotations"][name]


_JOB = "job:\n  name: demo\n"
_IMAGE = "environment:\n  image: app:v1\n"
_MAIN = _JOB + _IMAGE
PLACES = (
    Place(
        "command item",
        _no_reference,
        _MAIN + "  command:\n    - app\n    - ",
        4,
        "\n    - end\n",
        lambda o: _main(o)["command"][1],
    ),
    Place("args item", _no_reference, _MAIN + "  args:\n    - ", 4, "\n", lambda o: _main(o)["args"][0]),
    Place("args item, not indented", _no_reference, _MAIN + "  args:\n  - ", 2, "\n", lambda o: _main(o)["args"][0]),
    Place("args in flow", _no_reference, _MAIN + "  args: [a, ", 2, " , b]\n", lambda o: _main(o)["args"][1], True),
    Place(
        "args in flow lines",
        _no_reference,
        _MAIN + "  args: [\n    ",
        4,
        "\n  ]\n",
        lambda o: _main(o)["args"][0],
        True,
    ),
    Place("env value", _no_reference, _MAIN + "  env:\n    - name: A\n      value: ", 6, "\n", _variable("A")),
    Place("env value first", _no_reference, _MAIN + "  env:\n    - value: ", 6, "\n      name: A\n", _variable("A")),
    Place("env in flow", _no_reference, _MAIN + "  env: [{name: A, value: ", 2, " }]\n", _variable("A"), True),
    Place("env mapping", _no_reference, _MAIN + "  env:\n    A: ", 4, "\n    B: b\n", _variable("A")),
    Place("env mapping in flow", _no_reference, _MAIN + "  env: {A: ", 2, " , B: b}\n", _variable("A"), True),
    Place("explicit key", _no_reference, _MAIN + "  env:\n    ? A\n    : ", 4, "\n", _variable("A")),
    Place(
        "description", _no_reference, _JOB + "  description: ", 2, "\n" + _IMAGE, _annotation("runwhere.ai/description")
    ),
    Place(
        "annotation", _no_reference, _JOB + "  annotations:\n    x.com/a: ", 4, "\n" + _IMAGE, _annotation("x.com/a")
    ),
    Place(
        "annotation of the pod",
        _no_reference,
        _JOB + "  annotations: {b: ",
        2,
        "}\n" + _IMAGE,
        lambda o: _workload(o)["spec"]["template"]["metadata"]["annotations"]["b"],
        True,
    ),
    Place(
        "label",
        _label,
        _JOB + "  labels:\n    x.com/a: ",
        4,
        "\n" + _IMAGE,
        lambda o: _workload(o)["metadata"]["labels"]["x.com/a"],
    ),
    Place("working directory", _path, _MAIN + "  workdir: ", 2, "\n", lambda o: _main(o)["workingDir"]),
    Place(
        "workdir's path",
        _node_path,
        _MAIN + "storage:\n  workdirs:\n    - path: ",
        6,
        "\n",
        lambda o: _pod(o)["volumes"][0]["hostPath"]["path"],
    ),
    Place(
        "workdir's mountPath",
        _path,
        _MAIN + "storage:\n  workdirs:\n    - path: /x\n      mountPath: ",
        6,
        "\n",
        lambda o: _main(o)["volumeMounts"][0]["mountPath"],
    ),
    Place(
        "claim's subPath",
        _relative,
        _MAIN + "storage:\n  workdirs:\n    - path: /x\n      pvc: {claim: c, subPath: ",
        6,
        " }\n",
        lambda o: _main(o)["volumeMounts"][0]["subPath"],
        True,
    ),
    Place(
        "nfs server",
        names.is_host,
        _MAIN + "storage:\n  workdirs:\n    - path: /x\n      nfs:\n        path: /y\n        server: ",
        8,
        "\n",
        lambda o: _pod(o)["volumes"][0]["nfs"]["server"],
    ),
    Place(
        "health check",
        _url_path,
        _MAIN + "service:\n  health_check: ",
        2,
        "\n",
        lambda o: _main(o)["livenessProbe"]["httpGet"]["path"],
    ),
    Place(
        "secret's key",
        names.is_data_key,
        _MAIN + "  env:\n    - {name: A, secret: s, key: ",
        6,
        " }\n",
        lambda o: next(e for e in _main(o)["env"] if e["name"] == "A")["valueFrom"]["secretKeyRef"]["key"],
        True,
    ),
    *(
        Place(
            f"model {field}",
            _not_blank,
            f"model:\n  {field}: ",
            2,
            "\n" + _MAIN,
            _variable(f"MODEL_{field.upper()}"),
            kind="inference",
        )
        for field in ("source", "name", "version", "format")
    ),
    Place(
        "model annotation",
        _not_blank,
        "model:\n  name: ",
        2,
        "\n" + _MAIN,
        _annotation("runwhere.ai/model-name"),
        kind="inference",
    ),
    Place(
        "training args",
        _no_reference,
        _MAIN + "  args:\n    - ",
        4,
        "\n",
        lambda o: _main(o)["args"][0],
        kind="training",
    ),
    Place(
        "notebook args",
        _no_reference,
        _MAIN + "  args:\n    - ",
        4,
        "\n",
        lambda o: _main(o)["args"][0],
        kind="notebook",
    ),
    Place(
        "pool's description",
        _text,
        "pool:\n  name: p\n  description: ",
        2,
        "\n",
        lambda o: o["ConfigMap"]["metadata"]["annotations"]["runwhere.ai/description"],
        kind="pool",
    ),
    Place(
        "pool's definition",
        _text,
        "pool:\n  name: p\n  description: ",
        2,
        "\n",
        lambda o: read_pyyaml(o["ConfigMap"]["data"]["pool.yaml"])["pool"]["description"],
        kind="pool",
    ),
    Place(
        "quota's description",
        _text,
        "quota:\n  name: q\n  description: ",
        2,
        "\nusers: {a: {gpu: 1}}\n",
        lambda o: o["ResourceQuota"]["metadata"]["annotations"]["runwhere.ai/description"],
        kind="quota",
    ),
)


COMMANDS = {place.name for place in PLACES if re.search("args|command", place.name)}


def documents(
    texts: list[str], style: str, generator: random.Random, places: tuple[Place, ...]
) -> Iterator[tuple[Place, str, str]]:
    """For each place one of the texts that it takes, and a document that has it there in the style."""
    for place in places:
        for text in generator.sample(texts, len(texts)):
            scalar = write(text, style, place.column, generator, flow=place.flow) if place.legal(text) else None
            # Full-width punctuation alone is an error in a command unless it is quoted (GPU014).
            if scalar is None or (style == "plain" and place.name in COMMANDS and _is_full_width(text)):
                continue
            yield place, text, f"kind: {place.kind}\nversion: v0.1\n{place.before}{scalar}{place.after}"
            break


def manifest(text: str) -> list[str]:
    """The emitted objects that are no other job's."""
    result = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=_PLATFORM, shared=False)
    errors = [(item.message, str(item.span)) for item in result.diagnostics if item.severity.value == "error"]
    assert not errors, f"{errors} for {text!r}"
    return [emit_stream([obj]) for obj in result.objects]


def assert_arrives(written: list[tuple[Place, str, str]], generator: random.Random) -> None:
    """Compile all documents, and find every text as every reader reads the manifests.

    ruamel.yaml would take nine tenths of the time: it reads one in five. What the emitter writes for a text it reads in
    ``test_emitter.py``.
    """
    emitted = [manifest(document) for _, _, document in written]
    flat = [text for texts in emitted for text in texts]
    pyyaml, kubectl = map(read_pyyaml, flat), iter(read_go(flat))
    for (place, text, document), texts in zip(written, emitted, strict=True):
        readers = {"pyyaml": [next(pyyaml) for _ in texts], "kubectl": [next(kubectl) for _ in texts]}
        if generator.randrange(5) == 0:
            readers["ruamel"] = [read_ruamel(text) for text in texts]
        for reader, values in readers.items():
            objects = {obj["kind"]: obj for obj in values}
            assert place.read(objects) == text, f"{place.name}, {reader}: {document!r}"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("part", range(8))
def test_known_strings_reach_the_manifest(part: int, style: str) -> None:
    """Every string of the table in every style, spread over the places."""
    generator = random.Random(f"{part} {style}")
    written = []
    texts = share(NASTY[part::8])
    for number, text in enumerate(texts):
        fitting = [place for place in PLACES if place.legal(text)]
        for place in generator.sample(fitting, min(2, len(fitting))) if len(text) < 500 or number % 2 else fitting[:1]:
            written += documents([text], style, generator, (place,))
    assert written
    assert_arrives(written, generator)


@pytest.mark.parametrize("style", STYLES)
@examples(30)
@given(texts=st.lists(STRINGS, min_size=1, max_size=8), seed=st.integers(0, 2**32))
def test_random_strings_reach_the_manifest(style: str, texts: list[str], seed: int) -> None:
    generator = random.Random(seed)
    texts = [*texts, "/" + texts[0].strip("/").replace(":", ""), "a"]
    # Each run has other places of each text.
    places = generator.sample(PLACES, len(PLACES) // 2)
    assert_arrives(list(documents(texts, style, generator, tuple(places))), generator)
