"""The answer to what nobody allows, in the API server's own words (pure).

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go
"""

from pykubelet.api.errors import Forbidden
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.apiserver.auth.rules import about_resource
from pykubelet.apiserver.call import Decision, Review

# A message must not look like HTML to a browser.
_SAFE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def not_allowed(review: Review, decision: Decision) -> Forbidden:
    """The error for a request that no authorizer allows."""
    text = _question(review).translate(_SAFE)
    if decision.reason:
        text = f"{text}: {decision.reason}"
    if not review.resource:
        return Forbidden(f"forbidden: {text}", details={})
    subject = f"{review.resource}.{review.group}" if review.group else review.resource
    if review.name:
        subject = f"{subject} {go_quote(review.name)}"
    details = {"name": review.name, "group": review.group, "kind": review.resource}
    return Forbidden(
        f"{subject} is forbidden: {text}", details={field: value for field, value in details.items() if value}
    )


def _question(review: Review) -> str:
    who = f"User {go_quote(review.user.name)} cannot {review.verb}"
    if not about_resource(review):
        return f"{who} path {go_quote(review.path)}"
    resource = f"{review.resource}/{review.subresource}" if review.subresource else review.resource
    scope = f"in the namespace {go_quote(review.namespace)}" if review.namespace else "at the cluster scope"
    return f"{who} resource {go_quote(resource)} in API group {go_quote(review.group)} {scope}"
