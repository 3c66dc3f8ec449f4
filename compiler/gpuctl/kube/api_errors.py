"""Errors of a cluster with messages for users: the object first, then the field and the cause, then a hint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from gpuctl.hints import shows_server
from gpuctl.language.display_text import visible
from gpuctl.language.masking import redact
from gpuctl.language.sentences import Template, clauses, say

_T = TypeVar("_T")
_D = TypeVar("_D")
_LONGEST = 600
RETRY_LATER = Template("try again in a moment; administrators find the reason in the log of the service")
"""Hint for users of a service, who cannot change how it reaches the API server."""
# A field error's text: kind of error, the value (which may be a whole Go struct or JSON document), the explanation.
_FIELD_ERROR = (
    r"(?s)"
    r"(Invalid value|Unsupported value|Duplicate value|Not found|Required value|Forbidden|Too long|Too many)"
    r"(?:: (?P<value>.*))?: (?P<why>[^{}]+)\Z"
)
_REFUSAL = r"exceeded quota: |status unknown for quota: "
_NO_NAMESPACE = r'namespaces "([^"]*)" not found\Z'
_QUOTA = r"exceeded quota: |failed quota: "
_POLICY = r"ValidatingAdmissionPolicy '|admission webhook \""
_RBAC = (
    r'User "(?P<user>[^"]*)" cannot (?P<verb>[\w:-]+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)?'
)


class ClusterError(Exception):
    """A failure of the cluster, the connection or the user's rights; ``str()`` is the message for users."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        # Not passed to Exception: a rejected value may be quoted in it, unredacted.
        super().__init__()
        self._quoting = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message

    @cached_property
    def message(self) -> str:
        """The message with credentials redacted."""
        # Redacted on first use: most errors are handled and never shown, for example 404 for an optional kind.
        return redact(self._quoting)


class NotThere(ClusterError):
    """The named object does not exist, or the name is ambiguous."""


class NotPossible(ClusterError):
    """The requested action is not possible in the object's current state; nothing was changed."""


class ConfigurationError(ClusterError):
    """The kubeconfig is missing or damaged, or refers to an entry or file that does not exist."""


class ConnectionFailed(ClusterError):
    """The API server gave no response.

    ``sent``: the server may have acted on the request; False if no connection was made. ``is_untrusted``: no connection
    was made because the server's certificate is not trusted.

    :param public: the message for users of a service, without the server's address. "" if the message contains no
        address.
    """

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        sent: bool = True,
        is_untrusted: bool = False,
        public: str = "",
    ) -> None:
        is_public = bool(public) and not shows_server()
        super().__init__(public if is_public else message, say(RETRY_LATER) if is_public and hint else hint)
        self._whole = message
        self.sent = sent
        self.is_untrusted = is_untrusted

    @property
    def detail(self) -> str:
        """Return the message with the server's address, for the log of a service."""
        return redact(self._whole)


class Changed(ClusterError):
    """The cluster no longer matches the plan: an object was changed after the plan was made."""


class Cause(NamedTuple):
    """One entry of ``Status.details.causes``: the field (``spec.template...``), the kind of error, the text."""

    field: str
    reason: str
    message: str


class ApiError(ClusterError):
    """An error response: a ``Status`` of the API server, or the response of a proxy in front of it.

    ``status`` is the HTTP code, ``reason`` the API's reason (``Conflict``, ``AlreadyExists``, ``Forbidden``).
    """

    def __init__(
        self,
        status: int,
        reason: str,
        raw: str,
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        redirect: str = "",
    ) -> None:
        self.status = status
        self.reason = reason
        self.raw = raw
        self.causes = causes
        self.retry_after = retry_after
        if redirect:
            # Not followed: the target would receive the credentials.
            super().__init__(
                say(
                    "the API server, or a proxy before it, redirects to {target} (status {status})",
                    target=redirect,
                    status=status,
                ),
                say("if that is the API server, make it the `server` of the kubeconfig's cluster"),
            )
        else:
            super().__init__(_sentence(status, reason, raw, causes), _hint(status, raw))

    @property
    def is_missing(self) -> bool:
        """404: the object, or its kind, does not exist."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """409: it exists already, a precondition failed, or another manager owns a field."""
        return self.status == 409

    @property
    def exists_already(self) -> bool:
        """409 of a create."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def namespace_terminates(self) -> bool:
        """403 of a create in a namespace that is being deleted (a cause ``NamespaceTerminating``)."""
        return self.status == 403 and any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def lacks_namespace(self) -> bool:
        """Return True if the namespace is being deleted or does not exist."""
        return self.namespace_terminates or (self.status == 404 and re.match(_NO_NAMESPACE, self.raw) is not None)

    @property
    def exceeds_quota(self) -> bool:
        """403 because a ResourceQuota would be exceeded: a retry may succeed after resources are freed."""
        return self.status == 403 and is_quota_refusal(self.raw)

    @property
    def lacks_permission(self) -> bool:
        """403 because RBAC does not allow the request, and for no other reason."""
        return self.status == 403 and re.search(_QUOTA, self.raw) is None and re.search(_RBAC, self.raw) is not None

    @property
    def is_policy_refusal(self) -> bool:
        """Return True if a ValidatingAdmissionPolicy or an admission webhook refused the request."""
        return re.search(_POLICY, self.raw) is not None

    @property
    def is_outage(self) -> bool:
        """Return True if the cluster or the connection to it failed, rather than the request."""
        # A policy may refuse with any status. The response about a kind that does not exist is no Status.
        if self.is_policy_refusal or self.is_missing:
            return False
        return self.status in (401, 429) or self.status >= 500 or not self.raw

    @property
    def is_transient(self) -> bool:
        """Return True if the same request may succeed when it is retried."""
        return self.status in (429, 500, 502, 503, 504)


def is_outage(error: BaseException) -> bool:
    """Return True if the cluster or the connection failed, or the user lacks the right."""
    return isinstance(error, ConnectionFailed) or (
        isinstance(error, ApiError) and (error.is_outage or error.lacks_permission)
    )


def is_access_refusal(error: BaseException) -> bool:
    """Return True if the server does not accept the user's credentials or rights: a retry would not help."""
    return isinstance(error, ApiError) and error.status in (401, 403)


def if_allowed(read: Callable[[], _T], otherwise: _D) -> _T | _D:
    """Return the result of ``read``, or ``otherwise`` if the user may not read it, or the server has no such kind."""
    try:
        return read()
    except ApiError as error:
        if error.lacks_permission or error.is_missing:
            return otherwise
        raise


def or_refusal(read: Callable[[], _T]) -> _T | ApiError:
    """Return the result of ``read``, or the error if the user may not read it."""
    try:
        return read()
    except ApiError as error:
        if error.lacks_permission:
            return error
        raise


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a response's ``Retry-After``; None without a number."""
    value = headers.get("Retry-After")
    return float(value) if value is not None and re.fullmatch(r"[0-9]{1,9}", value) else None


def api_error(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """Return the error for an error response: a Status, or a page of a load balancer."""
    seconds = seconds_to_wait(headers)
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("kind") != "Status":
        target = _host(headers.get("Location") or "") if 300 <= status < 400 else ""
        return ApiError(status, "", "", (), seconds, target)
    details = value.get("details")
    listed = details.get("causes") if isinstance(details, dict) else None
    causes = tuple(
        Cause(str(item.get("field") or ""), str(item.get("reason") or ""), str(item.get("message") or ""))
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    )
    return ApiError(status, str(value.get("reason") or ""), str(value.get("message") or ""), causes, seconds)


def _host(location: str) -> str:
    """Return scheme and host of a redirect target; the path may hold secrets. "" if it is not an HTTP address."""
    match = re.match(r"https?://(?:[^/?#@]*@)?([^/?#@]+)", location)
    return visible(match[0].partition("://")[0] + "://" + match[1])[:200] if match else ""


def _sentence(status: int, reason: str, raw: str, causes: tuple[Cause, ...]) -> str:
    if not raw:
        return say("the API server, or a proxy before it, answered with status {status}", status=status)
    denied = re.search(_RBAC, raw)
    if denied and not re.search(_QUOTA, raw):
        resource = denied["resource"] + (f".{denied['group']}" if denied["group"] else "")
        where = (
            say(" in namespace {namespace}", namespace=denied["namespace"])
            if denied["namespace"]
            else say(" in the whole cluster")
        )
        # `impersonate-on:user-info:list`: constrained impersonation, since Kubernetes 1.36.
        mode, _, verb = denied["verb"].rpartition(":")
        act = say("act as another user to {verb}", verb=verb) if mode.startswith("impersonate-on:") else denied["verb"]
        return say(
            "user {user} may not {action} {resource}{where}",
            user=denied["user"],
            action=act,
            resource=resource,
            where=where,
        )
    if reason == "Conflict" and causes and all(cause.reason == "FieldManagerConflict" for cause in causes):
        return clauses(
            *(
                say(
                    "{path} is held by {managers:and}",
                    path=cause.field.lstrip("."),
                    managers=[_manager(cause.message)],
                )
                for cause in causes
            )
        )
    gone = re.match(_NO_NAMESPACE, raw)
    if gone:
        return say("there is no namespace {name}", name=gone[1])
    leaving = next((cause for cause in causes if cause.reason == "NamespaceTerminating"), None)
    if leaving is not None:
        return _shorten(leaving.message)
    if causes and any(cause.field for cause in causes):
        return _shorten("; ".join(_cause(cause) for cause in causes))
    if status == 401:
        return say("the API server does not accept the credentials (401 Unauthorized)")
    return _shorten(_plain(raw))


def _cause(cause: Cause) -> str:
    message = explanation(cause.message)
    return f"{cause.field}: {message}" if cause.field else message


def explanation(message: str) -> str:
    """Return a field error without the value it repeats, which may be a whole Go struct."""
    match = re.match(_FIELD_ERROR, message)
    if match is None:
        return _shorten(message)
    value = (match["value"] or "").strip()
    if not value and match[1] in ("Not found", "Duplicate value"):
        return _shorten(message)
    if not value or len(value) > 60 or "{" in value:
        return match["why"]
    return f"{value}: {match['why']}"


def _manager(message: str) -> str:
    """``conflict with "kubectl-edit" using v1 at ...`` -> ``kubectl-edit``."""
    match = re.search(r'conflict with "([^"]*)"', message)
    return match[1] if match else message


def _plain(raw: str) -> str:
    """Return the message without repeated Go structs and without the object's name, which may be a temporary one."""
    raw = re.sub(r'\A[\w.-]+ "[^"]*" is (?:forbidden|invalid): ', "", raw)
    return re.sub(r"Invalid value: \S*\{.*\}: ", "", raw, flags=re.DOTALL)


def _shorten(text: str) -> str:
    text = visible(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _hint(status: int, raw: str) -> str | None:
    if status == 401:
        return say("log in again, or check the user of the kubeconfig's context")
    if status == 403 and 'User "system:anonymous"' in raw:
        return say(
            "no credentials were sent: check the user of the kubeconfig's context, and that its server is https://"
        )
    if status == 403 and not re.search(_QUOTA, raw) and re.search(_RBAC, raw):
        return say("ask the platform's administrators for this right")
    if status >= 500 and "failed calling webhook" in raw:
        return say("this webhook must answer before the API server accepts the object: run it again then")
    return None


def is_quota_refusal(message: str) -> bool:
    """Return True if a request was refused because a quota is exceeded or its status is not computed yet.

    Such a request may succeed later. A pod that does not state an amount which the quota requires
    (:func:`gpuctl.capacity.admission.quota_charges.parse_unspecified`) is not such a case: the pod has to be changed.
    """
    return re.search(_REFUSAL, message) is not None
