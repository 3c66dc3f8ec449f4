"""Write a report as the one comment of this action on a pull request: a later run replaces its own, and no other.

Run by action.yml; the standard library is all it needs. What is its own carries a mark and was written by GitHub's own
account for workflows: anybody can write the mark.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

AUTHOR = "github-actions[bot]"
"""Who comments with a workflow's own token."""
LONGEST = 65_536
"""Characters that a comment may have."""
PAGE = 100
CUT = "\n\n... The report is longer than a comment may be; the summary of the run has all of it.\n"
TIMEOUT = 30.0


def mark_of(names: str) -> str:
    """What tells the comment of one use of the action from those of other uses in the same pull request."""
    return f"<!-- gpuctl {hashlib.sha256(' '.join(names.split()).encode()).hexdigest()[:16]} -->"


def body_of(mark: str, report: str) -> str:
    """The comment's text: the mark, then the report as far as there is room."""
    room = LONGEST - len(mark) - 1
    return f"{mark}\n{report if len(report) <= room else report[: room - len(CUT)] + CUT}"


def is_own(comment: dict[str, Any], mark: str) -> bool:
    """Whether a comment is the one to replace."""
    return (comment.get("user") or {}).get("login") == AUTHOR and str(comment.get("body")).startswith(mark)


class Comments:
    """The comments of a pull request."""

    def __init__(self, api: str, repository: str, number: int, token: str) -> None:
        self._issues = f"{api}/repos/{repository}/issues"
        self._list = f"{self._issues}/{number}/comments"
        self._token = token

    def write(self, mark: str, body: str) -> None:
        """Replace the own comment, or write a new one."""
        page = 1
        while True:
            found = self._call("GET", f"{self._list}?per_page={PAGE}&page={page}")
            for comment in found:
                if is_own(comment, mark):
                    self._call("PATCH", f"{self._issues}/comments/{int(comment['id'])}", body)
                    return
            if len(found) < PAGE:
                break
            page += 1
        self._call("POST", self._list, body)

    def _call(self, method: str, url: str, body: str | None = None) -> Any:
        data = None if body is None else json.dumps({"body": body}).encode()
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "User-Agent": "gpuctl",
        }
        # The address is the runner's own, never a pull request's.
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
            return json.load(answer)


def main() -> int:
    """Comment as the environment of a workflow says; 0 also where there is nothing to comment on."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    pull = event.get("pull_request")
    if pull is None:
        return 0
    repository = os.environ["GITHUB_REPOSITORY"]
    if ((pull.get("head") or {}).get("repo") or {}).get("full_name") != repository:
        # Its token can only read, and that is right: what runs there is others' code.
        print("::notice::the pull request comes from a fork, so there is no comment; the summary has the report")
        return 0
    mark = mark_of(os.environ["FILES"])
    report = Path(os.environ["REPORT"]).read_text(encoding="utf-8")
    comments = Comments(os.environ["GITHUB_API_URL"], repository, int(pull["number"]), os.environ["TOKEN"])
    try:
        comments.write(mark, body_of(mark, report))
    except urllib.error.HTTPError as error:
        print(f"::error::GitHub refuses the comment ({error.code}): give the job `permissions: pull-requests: write`")
        return 1
    except (OSError, ValueError) as error:
        print(f"::error::the comment could not be written: {type(error).__name__}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
