"""One line about the parts of the test suite that cannot run here, and how to get them."""

from __future__ import annotations

import shutil

from control_plane import BinariesMissing, find_binaries


def main() -> None:
    """Print what `make test` will leave out; in CI nothing is left out, a missing part fails."""
    if shutil.which("go") is None:
        print(
            "left out: kubeconform, kubectl's YAML reader, the schemas of JobSet and LeaderWorkerSet, the control plane: install Go 1.26"
        )
        return
    try:
        find_binaries()
    except BinariesMissing as error:
        print(f"left out: the tests on a real control plane: {error}")
        return
    try:
        find_binaries(queues=True)
    except BinariesMissing as error:
        print(f"left out: the tests of queues, JobSets and LeaderWorkerSets: {error}")


if __name__ == "__main__":
    main()
