"""The user who last applied a workload: an annotation that an apply writes, shown in confirmations and lists.

Any user who may write the object can write the annotation, so no decision depends on it.
"""

from __future__ import annotations

import contextlib

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.display_text import visible
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.ownership_metadata import Records

_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_LONGEST = 200


def caller_of(session: Session) -> str | None:
    """Return the name of the session's user as the API server knows it; the server is asked once.

    Source: SelfSubjectReview, from Kubernetes 1.28 on. If the server does not answer it, the name of the kubeconfig's
    context is used.
    """
    if session.caller is None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        name = None
        with contextlib.suppress(ClusterError):
            answer = session.request("POST", _REVIEW, body=body)
            name = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
        context = f"context {session.context}" if session.context else ""
        session.caller = name if isinstance(name, str) and name else context
    return session.caller or None


def applied_by(obj: Object, keys: Records) -> str | None:
    """Return the user who last applied a workload according to its annotation; None without one."""
    return visible(annotations_of(obj).get(keys.applied_by, ""))[:_LONGEST] or None
