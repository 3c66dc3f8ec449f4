"""Routes: the ``service.route`` of a job, and the platform's controller of routes."""

from pydantic import Field, model_validator

from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import Exclusion, one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    Block,
    Boolean,
    DnsLabel,
    Domain,
    LabelKey,
    NamespacedName,
    ObjectName,
    Text,
    empty_dict,
)
from gpuctl.language.path_fields import RoutePath
from gpuctl.language.sentences import Template, say


class Route(Block):
    """Address of the service outside the cluster. Becomes an HTTPRoute or Ingress: see the platform's `routes`."""

    host: Domain = Field(description="Host name of the requests.", examples=["chat.example.com"])
    path: RoutePath = Field(
        "/",
        description="Path of the requests, with everything below it. It is part of the request that the program gets.",
        examples=["/v1"],
    )


_ONE_CONTROLLER = Template("routes need one of `gateway` and `ingress`")
_OF_INGRESS = Template("`secret` is the certificate of an Ingress with `tls`")


class RouteSettings(Block):
    """Routes to services from outside the cluster: a Gateway for HTTPRoutes, or a class of Ingresses."""

    exclusions = (
        *one_of("gateway", "ingress", message=_ONE_CONTROLLER, at=""),
        Exclusion("ingress", ("listener",)),
        Exclusion(
            "gateway",
            ("secret",),
            _OF_INGRESS,
            Template("remove it: the Gateway's listener has the certificate"),
        ),
    )

    gateway: NamespacedName | None = Field(
        None,
        description="Gateway (Gateway API) that HTTPRoutes attach to, as NAMESPACE/NAME. It must allow routes from the "
        "namespaces of jobs.",
        examples=["infra/public"],
    )
    listener: DnsLabel | None = Field(
        None, description="Listener of the Gateway. Default: all that match the host.", examples=["https"]
    )
    ingress: ObjectName | None = Field(
        None, description="IngressClass of Ingresses, for clusters without Gateway API.", examples=["nginx"]
    )
    tls: Boolean = Field(
        False,
        description="If true, hosts are served over TLS: addresses begin with https. An Ingress gets a `tls` entry; "
        "of a Gateway, the listener has the certificate.",
        examples=[True],
    )
    secret: ObjectName | None = Field(
        None,
        description="Secret with the certificate of Ingresses, in the namespace of each job. Default: the certificate "
        "of the Ingress controller.",
        examples=["wildcard-tls"],
    )
    annotations: dict[LabelKey, Text] = Field(
        default_factory=empty_dict,
        description="Annotations of routes, which controllers read.",
        examples=[{"cert-manager.io/cluster-issuer": "letsencrypt"}],
    )

    @model_validator(mode="after")
    def _one_controller(self) -> "RouteSettings":
        refuse_exclusions(self)
        if self.gateway is None and self.ingress is None:
            raise field_error("GPU213", say(_ONE_CONTROLLER), say("add one of them"), ())
        if self.gateway is None and self.listener is not None:
            raise field_error(
                "GPU213", say("`listener` is one of a Gateway"), say("add `gateway`, or remove it"), ("listener",)
            )
        if self.secret is not None and not self.tls:
            raise field_error("GPU213", say(_OF_INGRESS), say("add `tls: true`"), ("secret",))
        return self
