"""One line about the parts of the test suite that cannot run here, and how to get them."""

from __future__ import annotations

import shutil


def main() -> None:
    missing = [name for name in ("go",) if shutil.which(name) is None]
    if missing:
        print(
            "left out: kubeconform, kubectl's YAML reader and the JobSet schema (no Go); install Go 1.26 or newer "
            "to run them. With CI=true they fail instead."
        )


if __name__ == "__main__":
    main()
