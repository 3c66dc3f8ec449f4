"""Write the generated part of ``deploy/monitoring``: ``make schemas``.

These are the Grafana dashboards, and the rules as objects for the Prometheus Operator. With ``--check`` nothing is
written, and the exit code is 1 if a file is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from dashboards import DASHBOARDS, grafana

DIRECTORY = Path(__file__).resolve().parent.parent / "deploy" / "monitoring"
_OPERATOR = """\
# Generated from rules/{name}.yaml, for the Prometheus Operator: `make schemas`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gpuctl-{name}
  namespace: gpuctl-system
spec:
"""


def files() -> Iterator[tuple[Path, str]]:
    """Return the content of each generated file."""
    for dashboard in DASHBOARDS:
        text = json.dumps(grafana(dashboard), indent=2, ensure_ascii=False)
        yield DIRECTORY / "dashboards" / f"{dashboard.uid}.json", f"{text}\n"
    for path in sorted((DIRECTORY / "rules").glob("*.yaml")):
        rules = textwrap.indent(path.read_text(encoding="utf-8"), "  ")
        yield DIRECTORY / "operator" / path.name, _OPERATOR.format(name=path.stem) + rules


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; return the exit code."""
    parser = argparse.ArgumentParser(description="Write dashboards, and rules for the Prometheus Operator.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    check = parser.parse_args(arguments).check
    different = [
        (path, text) for path, text in files() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in different:
        if check:
            print(f"{path.name} is not what tools/dashboards.py and rules/ say: run `make schemas`", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
