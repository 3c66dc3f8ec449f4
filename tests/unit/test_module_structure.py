"""Structure of the packages: no import cycles, unique names of modules and public classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPUCTL = ROOT / "compiler" / "gpuctl"
PACKAGES = (GPUCTL, ROOT / "server" / "gpuctl_server", ROOT / "server" / "gpuctl_usage", ROOT / "sdk/python/gpuctl_sdk")
# A document kind or block has a module of its name for the language and another for lowering; a command has its own
# name.
KINDS = {"compute", "inference", "notebook", "pool", "quota", "service", "storage", "training"}


def modules(*packages: Path) -> dict[str, Path]:
    """Return the modules of packages by their dotted names."""
    found = {}
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.Module, known: Iterable[str]) -> Iterator[str]:
    """Yield the product's modules that a module imports, including imports in functions and for annotations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in known else node.module


def test_modules_have_no_import_cycles() -> None:
    known = modules(*PACKAGES)
    graph = {
        name: {other for other in imported(parsed(path), known) if other in known and other != name}
        for name, path in known.items()
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_module_names_are_unique() -> None:
    names = defaultdict(list)
    for name, path in modules(*PACKAGES).items():
        stem = name.rpartition(".")[2]
        if (
            path.name not in ("__init__.py", "__main__.py")
            and not name.startswith("gpuctl.cli.commands.")
            and stem not in KINDS
        ):
            names[stem].append(name)
    assert {stem: found for stem, found in names.items() if len(found) > 1} == {}


def test_public_class_names_are_unique() -> None:
    types = defaultdict(list)
    for name, path in modules(GPUCTL).items():
        if name.startswith("gpuctl.api."):
            continue  # Names of the OpenAPI document: `Quota` is a response there, elsewhere a document.
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                types[node.name].append(name)
    assert {name: found for name, found in types.items() if len(found) > 1} == {}
