"""Access reviews: SubjectAccessReview and its relatives, TokenReview, SelfSubjectReview.

Reviews are posted like objects, answered at once and never stored.

Upstream: pkg/apis/authorization/validation/validation.go, pkg/registry/authorization/util/helpers.go,
pkg/registry/authorization/subjectaccessreview/rest.go, pkg/registry/authorization/selfsubjectrulesreview/rest.go,
pkg/registry/authentication/tokenreview/storage.go, pkg/registry/authentication/selfsubjectreview/rest.go
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError, each_invalid, forbidden, invalid, required
from pykubelet.api.fields import FieldRequirement, parse_field_selector
from pykubelet.api.labels import Operator, SelectorError, parse_selector, requirement
from pykubelet.api.names import label_value_errors, qualified_name_errors
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time
from pykubelet.apiserver.authentication.authenticator import Authenticator
from pykubelet.apiserver.authentication.serviceaccount import TokenError
from pykubelet.apiserver.authorization.authorizer import Authorizer
from pykubelet.apiserver.authorization.rbac import aggregate
from pykubelet.apiserver.errors import invalid as errors_invalid
from pykubelet.apiserver.request import ApiRequest, ApiResponse, AuthorizationAttributes, UserInfo, node_of
from pykubelet.apiserver.serializer.decoder import ExpectedKind, decode_in_thread, read_posted_object

_RESOURCE = "spec.resourceAttributes"
_LABEL_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
Handler = Callable[[ApiRequest], Awaitable[ApiResponse]]
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class AccessReviews:
    """The handlers of all review resources."""

    authenticator: Authenticator
    authorizer: Authorizer
    clock: Clock

    def handlers(self) -> Mapping[tuple[str, str], Handler]:
        return {
            (f"selfsubjectreviews.{AUTHENTICATION}", ""): self.self_subject_review,
            (f"tokenreviews.{AUTHENTICATION}", ""): self.token,
            (f"subjectaccessreviews.{AUTHORIZATION}", ""): self.access,
            (f"localsubjectaccessreviews.{AUTHORIZATION}", ""): self.access,
            (f"selfsubjectaccessreviews.{AUTHORIZATION}", ""): self.access,
            (f"selfsubjectrulesreviews.{AUTHORIZATION}", ""): self.rules,
        }

    async def self_subject_review(self, request: ApiRequest) -> ApiResponse:
        """Answers a SelfSubjectReview: the user that sent it."""
        review = await decode_in_thread(request, read_posted_object, request, ExpectedKind.of(request.served))
        metadata = {"creationTimestamp": format_time(self.clock.now())}
        status = {"userInfo": _user_document(request.user)}
        return review.answer(_type(review.document) | {"metadata": metadata, "status": status})

    async def token(self, request: ApiRequest) -> ApiResponse:
        """Answers a TokenReview: whether a token is valid, and whose it is."""
        review = await decode_in_thread(request, read_posted_object, request, ExpectedKind.of(request.served))
        spec = review.document["spec"]
        token = spec.get("token", "")
        if not token:
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            user, audiences = self.authenticator.review(token, tuple(spec.get("audiences") or ()))
        except TokenError as error:
            return review.answer(review.document | {"status": {"error": str(error)}})
        status = {"authenticated": True, "user": _user_document(user), "audiences": list(audiences)}
        return review.answer(review.document | {"status": status})

    async def access(self, request: ApiRequest) -> ApiResponse:
        """Answers SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview."""
        kind = request.served.resource.kind
        review = await decode_in_thread(request, read_posted_object, request, ExpectedKind.of(request.served))
        if errors := access_review_errors(review.document, kind):
            # Upstream's error has no kind here, and its message shows that.
            raise errors_invalid("", AUTHORIZATION, "", errors)
        spec = review.document["spec"]
        review_spec = access_review_spec(request.user if kind == "SelfSubjectAccessReview" else subject_of(spec), spec)
        decision = self.authorizer.decide(review_spec.review)
        status = {"allowed": decision.allowed, "reason": decision.reason, "evaluationError": review_spec.problem}
        return review.answer(review.document | {"status": status})

    async def rules(self, request: ApiRequest) -> ApiResponse:
        """Answers a SelfSubjectRulesReview: the rules of the user in a namespace."""
        review = await decode_in_thread(request, read_posted_object, request, ExpectedKind.of(request.served))
        namespace = review.document["spec"].get("namespace", "")
        if not namespace:
            raise BadRequest("no namespace on request")
        rules, problems = self.authorizer.rbac.rules_for(request.user, namespace)
        incomplete = node_of(request.user) is not None
        if incomplete:
            problems = ["node authorizer does not support user rule resolution", *problems]
        about_resources = [rule.document for rule in rules if rule.resources]
        about_paths = [rule.document for rule in rules if rule.paths]
        status = {
            "resourceRules": about_resources,
            "nonResourceRules": about_paths,
            "incomplete": incomplete,
            "evaluationError": aggregate(problems) if problems else "",
        }
        return review.answer(_type(review.document) | {"metadata": {}, "spec": {}, "status": status})


class AccessReviewSpec(NamedTuple):
    """The attributes that a review asks about, and the selector requirements that were ignored."""

    review: AuthorizationAttributes
    problem: str


def access_review_errors(document: Document, kind: str) -> list[FieldError]:
    """Validates a review, in upstream's order."""
    spec, metadata = document["spec"], document["metadata"]
    about_resource, about_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: list[FieldError] = []
    if about_resource is not None and about_path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", _internal(about_path), text))
    if about_resource is None and about_path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid(_RESOURCE, None, text))
    if kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    if about_resource is not None:
        errors += _selector_errors(about_resource)
    is_local = kind == "LocalSubjectAccessReview"
    if any(value for field, value in metadata.items() if not (is_local and field == "namespace")):
        errors.append(
            invalid("metadata", metadata, "must be empty except for namespace" if is_local else "must be empty")
        )
    return errors + (_local_errors(metadata, about_resource, about_path) if is_local else [])


def access_review_spec(user: UserInfo, spec: Document) -> AccessReviewSpec:
    """The attributes that a valid review asks about for a user."""
    about = spec.get("resourceAttributes")
    if about is None:
        path = spec["nonResourceAttributes"]
        return AccessReviewSpec(
            AuthorizationAttributes(user=user, verb=path.get("verb", ""), path=path.get("path", "")), ""
        )
    fields, fields_problem = _selector_text(about, "fieldSelector", parse_field_selector, _field_requirement)
    labels, labels_problem = _selector_text(about, "labelSelector", parse_selector, _label_requirement)
    review = AuthorizationAttributes(
        user=user,
        verb=about.get("verb", ""),
        group=about.get("group", ""),
        version=about.get("version") or "*",
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        fields=fields,
        labels=labels,
    )
    return AccessReviewSpec(review, "; ".join(filter(None, (fields_problem, labels_problem))))


def subject_of(spec: Document) -> UserInfo:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _local_errors(metadata: Document, about_resource: Document | None, about_path: Document | None) -> list[FieldError]:
    errors: list[FieldError] = []
    if about_resource is not None and (given := about_resource.get("namespace", "")) != metadata.get("namespace", ""):
        errors.append(invalid(f"{_RESOURCE}.namespace", given, "must match metadata.namespace"))
    if about_path is not None:
        text = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", _internal(about_path), text))
    return errors


def _internal(about_path: Document) -> Document:
    """The attributes as Go prints their internal form."""
    return {"Path": about_path.get("path", ""), "Verb": about_path.get("verb", "")}


def _selector_errors(about: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("fieldSelector", "labelSelector"):
        selector = about.get(field)
        if selector is None:
            continue
        path, raw, requirements = f"{_RESOURCE}.{field}", selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            errors.append(invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements"))
        if not raw and not requirements:
            text = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(f"{path}.requirements", text))
        for index, one in enumerate(requirements or ()):
            errors += _requirement_errors(one, f"{path}.requirements[{index}]", is_label=field == "labelSelector")
    return errors


def _requirement_errors(one: Document, path: str, *, is_label: bool) -> list[FieldError]:
    key, operator, values = one.get("key", ""), one.get("operator", ""), one.get("values") or ()
    errors = [] if key or is_label else [required(f"{path}.key", "must be specified")]
    if operator in {"In", "NotIn"} and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if operator in {"Exists", "DoesNotExist"} and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", text))
    if is_label:
        errors += each_invalid(f"{path}.key", key, qualified_name_errors(key))
        for index, value in enumerate(values):
            errors += each_invalid(f"{path}.values[{index}]", value, label_value_errors(value))
    return errors


def _selector_text(
    about: Document, field: str, parse: Callable[[str], object], requirement_text: Callable[[Document], str | None]
) -> tuple[str, str]:
    """The selector as text, and a message about the requirements that were ignored."""
    selector = about.get(field) or {}
    if raw := selector.get("rawSelector"):
        try:
            return str(parse(raw)), ""
        except SelectorError:
            return "", f"{_RESOURCE}.{field} ignored due to parse error"
    wanted: Sequence[Document] = selector.get("requirements") or ()
    found = [text for one in wanted if (text := requirement_text(one)) is not None]
    problem = f"{_RESOURCE}.{field} {'partially ignored' if found else 'ignored'} due to parse error"
    return ",".join(found), "" if len(found) == len(wanted) else problem


def _field_requirement(one: Document) -> str | None:
    if one.get("operator") not in {"In", "NotIn"} or len(one.get("values") or ()) != 1:
        return None
    return str(FieldRequirement(one.get("key", ""), one["values"][0], equal=one["operator"] == "In"))


def _label_requirement(one: Document) -> str | None:
    operator = _LABEL_OPERATORS.get(one.get("operator", ""))
    return None if operator is None else str(requirement(one.get("key", ""), operator, one.get("values") or ()))


def _type(document: Document) -> Document:
    return {"kind": document["kind"], "apiVersion": document["apiVersion"]}


def _user_document(user: UserInfo) -> Document:
    extra = {key: list(values) for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
