"""The requests of service accounts, from the API server's audit log, with its decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_WHOSE = "system:serviceaccounts"


class Asked(NamedTuple):
    """A request: ``resource`` with its subresource behind a slash, "" for what is no resource; ``namespace`` "" for none
    or all. ``status`` is the answer's, ``reason`` why it was allowed or not."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    status: int
    reason: str
    path: str


class AuditLog:
    """The API server's audit in a file of its own."""

    def __init__(self, directory: Path) -> None:
        self._policy = directory / "audit-policy.json"
        self._log = directory / "audit.log"

    def flags(self) -> tuple[str, ...]:
        """Write the policy; the API server's flags."""
        rules = [{"level": "Metadata", "userGroups": [_WHOSE]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        self._policy.write_text(json.dumps(policy))
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}")

    def asked(self, user: str) -> Iterator[Asked]:
        """Return the requests of a user until now, each once; a watch counts when it begins."""
        seen: set[str] = set()
        for line in self._log.read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] != user or event["auditID"] in seen:
                continue
            seen.add(event["auditID"])
            ref = event.get("objectRef") or {}
            yield Asked(
                user,
                event["verb"],
                ref.get("apiGroup", ""),
                "/".join(filter(None, (ref.get("resource"), ref.get("subresource")))),
                ref.get("namespace", ""),
                ref.get("name", ""),
                (event.get("responseStatus") or {}).get("code", 0),
                (event.get("annotations") or {}).get("authorization.k8s.io/reason", ""),
                event["requestURI"],
            )
