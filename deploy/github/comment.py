"""Write a report as a comment on a pull request. A later run replaces this comment, and no other.

Run by action.yml; needs only the standard library. The comment is identified by a mark and by its author, GitHub's
account for workflows: any user can write the mark.
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
"""Author of comments with the token of a workflow."""
LONGEST = 65_536
"""Maximum length of a comment, characters."""
PAGE = 100
CUT = "\n\n... The report is too long for a comment; the summary of the run has all of it.\n"
TIMEOUT = 30.0


def mark_of(names: str) -> str:
    """Return the mark of one use of the action; a pull request can have several uses."""
    return f"<!-- gpuctl {hashlib.sha256(' '.join(names.split()).encode()).hexdigest()[:16]} -->"


def body_of(mark: str, report: str) -> str:
    """Return the text of the comment: the mark, then the report, cut to the maximum length."""
    room = LONGEST - len(mark) - 1
    return f"{mark}\n{report if len(report) <= room else report[: room - len(CUT)] + CUT}"


def is_own(comment: dict[str, Any], mark: str) -> bool:
    """Return True if a comment is the one to replace."""
    return (comment.get("user") or {}).get("login") == AUTHOR and str(comment.get("body")).startswith(mark)


class Comments:
    """The comments of a pull request."""

    def __init__(self, api: str, repository: str, number: int, token: str) -> None:
        self._issues = f"{api}/repos/{repository}/issues"
        self._list = f"{self._issues}/{number}/comments"
        self._token = token

    def write(self, mark: str, body: str) -> None:
        """Replace the comment with the mark, or write a new one."""
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
        # The URL comes from the runner, never from the pull request.
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
            return json.load(answer)


def main() -> int:
    """Write the comment, with the environment of a workflow. Return 0 also without a pull request."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    pull = event.get("pull_request")
    if pull is None:
        return 0
    repository = os.environ["GITHUB_REPOSITORY"]
    if ((pull.get("head") or {}).get("repo") or {}).get("full_name") != repository:
        # The token of a fork's workflow cannot write, because its code is not trusted.
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
