"""Users of the cluster, authenticated by TokenReview and authorized by SubjectAccessReview.

Their writes carry their own token, so that the API server's RBAC decides. What the service reads with its own rights is
filtered by access reviews: one for the whole cluster, then one for each namespace when it is first needed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, Resource
from gpuctl_server.access.rights import AccessRequest, Decision, denied, granted
from gpuctl_server.access.tokens import digest_of
from gpuctl_usage.ttl_cache import TtlCache

_TOKENS_LAST = 60.0
_REVIEWS_LAST = 30.0
_AT_ONCE = 8
"""Maximum number of concurrent reviews. Two thousand at once would keep an API server busy for minutes."""


class User(NamedTuple):
    """A user as TokenReview returns it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _Attributes(NamedTuple):
    """The attributes of a SubjectAccessReview: those of a resource, or the ``path`` of a URL without one."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespaced: bool = True
    path: str = ""

    def fields(self, namespace: str) -> dict[str, dict[str, str]]:
        """Return the attributes in the form of the request."""
        if self.path:
            return {"nonResourceAttributes": {"verb": self.verb, "path": self.path}}
        wanted = {
            "namespace": namespace,
            "verb": self.verb,
            "group": self.group,
            "resource": self.resource,
            "subresource": self.subresource,
        }
        return {"resourceAttributes": {key: value for key, value in wanted.items() if value}}


_RIGHTS: dict[tuple[str, str], _Attributes] = {
    ("jobs", "get"): _Attributes("list", "", "pods"),
    ("jobs", "create"): _Attributes("create", "batch", "jobs"),
    ("jobs", "update"): _Attributes("patch", "batch", "jobs"),
    ("jobs", "delete"): _Attributes("delete", "batch", "jobs"),
    ("logs", "get"): _Attributes("get", "", "pods", "log"),
    ("metrics", "get"): _Attributes("list", "", "pods"),
    ("plans", "get"): _Attributes("list", "", "pods"),
    ("plans", "create"): _Attributes("list", "", "pods"),
    ("quotas", "get"): _Attributes("list", "", "resourcequotas"),
    ("quotas", "create"): _Attributes("create", "", "resourcequotas"),
    ("quotas", "update"): _Attributes("patch", "", "resourcequotas"),
    ("quotas", "delete"): _Attributes("delete", "", "resourcequotas"),
    ("namespaces", "get"): _Attributes("list", "", "namespaces", namespaced=False),
    ("namespaces", "create"): _Attributes("create", "", "namespaces", namespaced=False),
    ("recoveries", "get"): _Attributes("list", "", "secrets"),
    ("recoveries", "create"): _Attributes("create", "", "secrets"),
    ("audit", "get"): _Attributes("*", "*", "*", namespaced=False),
}
_SCRAPES = _Attributes("get", path="/metrics")
_OF_NODES = frozenset({"pools", "nodes", "labels"})
_ANYWHERE = frozenset({"jobs", "logs", "metrics", "plans", "quotas", "recoveries"})
"""Resources that RBAC may grant in single namespaces. Without a namespace the decision is left to a later request."""


class Reviewer:
    """Reviews tokens and rights with the service's own credentials, and caches the results."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._users: TtlCache[str, User | None] = TtlCache(_TOKENS_LAST)
        self._reviews: TtlCache[tuple[User, _Attributes, str], bool] = TtlCache(_REVIEWS_LAST)
        self._slots = threading.Semaphore(_AT_ONCE)

    def user(self, token: str) -> User | None:
        """Return the user of a token; None if the API server does not accept it.

        :raises ClusterError: the review failed.
        """
        return self._users.get(digest_of(token), lambda: self._user(token))

    def may(self, user: User, attributes: _Attributes, namespace: str) -> bool:
        """Return True if a user has a right in a namespace ("": in all namespaces).

        :raises ClusterError: the review failed.
        """
        return self._reviews.get((user, attributes, namespace), lambda: self._review(user, attributes, namespace))

    def _user(self, token: str) -> User | None:
        answer = self._post(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}},
        )
        if not answer.get("authenticated"):
            return None
        found = answer.get("user") or {}
        extra = tuple(sorted((key, tuple(values)) for key, values in (found.get("extra") or {}).items()))
        return User(found.get("username") or "", found.get("uid") or "", tuple(found.get("groups") or ()), extra)

    def _review(self, user: User, attributes: _Attributes, namespace: str) -> bool:
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            **attributes.fields(namespace),
        }
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        return bool(
            self._post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {**kind, "spec": spec}).get("allowed")
        )

    def _post(self, path: str, body: Object) -> Object:
        with self._slots:
            answer: Object = Session(self._connection, threads=1).request("POST", path, body=body)
        return dict(answer.get("status") or {})


@dataclass(frozen=True)
class ClusterCaller:
    """A user of the cluster. ``own`` is the connection with the user's identity, for writes."""

    user: User
    reviewer: Reviewer
    own: Connection

    @property
    def name(self) -> str:
        return self.user.name

    @property
    def home(self) -> None:
        """None: RBAC does not define a default namespace."""
        return

    @property
    def namespaces(self) -> None:
        """None: RBAC does not list a user's namespaces."""
        return

    @property
    def pools(self) -> None:
        """None: RBAC does not limit users to pools."""
        return

    def sees(self, namespace: str) -> bool:
        """Return True if the user may list the pods of a namespace ("": True)."""
        return not namespace or self._is_allowed(_RIGHTS["jobs", "get"], namespace)

    def sees_all(self) -> bool:
        return self._is_allowed(_RIGHTS["jobs", "get"], "")

    def may_scrape(self) -> bool:
        """Return True if the user may get the path `/metrics`: the right that Prometheus has for the cluster's own."""
        return self._is_allowed(_SCRAPES, "")

    def may_list(self, resource: Resource) -> bool:
        attributes = _Attributes("list", resource.group, resource.plural, namespaced=resource.namespaced)
        return self._is_allowed(attributes, "")

    @property
    def is_confined(self) -> bool:
        """False: the user's writes are authorized by the API server."""
        return False

    def may(self, access: AccessRequest) -> Decision:
        """Decide a request by access reviews. Without a namespace it is allowed here, and decided once its namespace is
        known.
        """
        attributes = _attributes(access)
        if attributes is None:
            return denied(self.name, access, say("this right does not exist"))
        if access.namespace is None and access.resource in _ANYWHERE:
            return Decision(True, say("{name} may {access} where Kubernetes allows it", name=self.name, access=access))
        where = access.namespace if attributes.namespaced and access.namespace is not None else ""
        if self._is_allowed(attributes, where):
            return granted(self.name, access)
        right = f"{attributes.verb} {attributes.resource}" + (
            f"/{attributes.subresource}" if attributes.subresource else ""
        )
        return denied(self.name, access, say("Kubernetes does not allow to {right}", right=right))

    def connection(self, service: Connection) -> Connection:
        return self.own

    def _is_allowed(self, attributes: _Attributes, namespace: str) -> bool:
        if self.reviewer.may(self.user, attributes, ""):
            return True
        return bool(namespace) and self.reviewer.may(self.user, attributes, namespace)


class ClusterUsers:
    """Authenticates the tokens that the API server accepts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reviewer = Reviewer(connection)

    def caller(self, token: str) -> ClusterCaller | None:
        if not token.isascii() or not token.isprintable():
            return None
        user = self._reviewer.user(token)
        return None if user is None else ClusterCaller(user, self._reviewer, self._connection.with_token(token))


def _attributes(access: AccessRequest) -> _Attributes | None:
    if access.resource in _OF_NODES:
        return _Attributes("list" if access.action == "get" else "patch", "", "nodes", namespaced=False)
    return _RIGHTS.get((access.resource, access.action))
