"""Reviews: who am I, may I, may they, what may I, and whose token is this.

They are posted like objects, answered at once and never stored.

Upstream: pkg/registry/authorization/*/rest.go, pkg/registry/authentication/{tokenreview,selfsubjectreview}
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import BadRequest
from pykubelet.api.times import format_time
from pykubelet.api.wire import Document
from pykubelet.apiserver.auth.access_questions import question, question_errors, subject_of
from pykubelet.apiserver.auth.authenticate import Authenticator
from pykubelet.apiserver.auth.authorize import Authorizer
from pykubelet.apiserver.auth.identity import node_of
from pykubelet.apiserver.auth.posted import posted
from pykubelet.apiserver.auth.rbac import aggregate
from pykubelet.apiserver.auth.tokens import TokenError
from pykubelet.apiserver.call import Answer, Call, User
from pykubelet.apiserver.failures import invalid
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.requests.bodies import Expected

Handler = Callable[[Call], Awaitable[Answer]]
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Reviews:
    """The handlers of all reviews."""

    authenticator: Authenticator
    authorizer: Authorizer
    clock: Clock

    def handlers(self) -> Mapping[tuple[str, str], Handler]:
        """Each handler under its resource and subresource, as the server looks it up."""
        return {
            (f"selfsubjectreviews.{AUTHENTICATION}", ""): self.who_am_i,
            (f"tokenreviews.{AUTHENTICATION}", ""): self.token,
            (f"subjectaccessreviews.{AUTHORIZATION}", ""): self.access,
            (f"localsubjectaccessreviews.{AUTHORIZATION}", ""): self.access,
            (f"selfsubjectaccessreviews.{AUTHORIZATION}", ""): self.access,
            (f"selfsubjectrulesreviews.{AUTHORIZATION}", ""): self.rules,
        }

    async def who_am_i(self, call: Call) -> Answer:
        """SelfSubjectReview."""
        review = await read_aside(call, posted, call, _expected(call))
        metadata = {"creationTimestamp": format_time(self.clock.now())}
        status = {"userInfo": _user_document(call.user)}
        return review.answer(_type(review.document) | {"metadata": metadata, "status": status})

    async def token(self, call: Call) -> Answer:
        """TokenReview."""
        review = await read_aside(call, posted, call, _expected(call))
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

    async def access(self, call: Call) -> Answer:
        """SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview."""
        kind = call.served.resource.kind
        review = await read_aside(call, posted, call, _expected(call))
        if errors := question_errors(review.document, kind):
            # Upstream has forgotten the kind by now, and its messages show that.
            raise invalid("", AUTHORIZATION, "", errors)
        spec = review.document["spec"]
        asked = question(call.user if kind == "SelfSubjectAccessReview" else subject_of(spec), spec)
        decision = self.authorizer.decide(asked.review)
        status = {"allowed": decision.allowed, "reason": decision.reason, "evaluationError": asked.problem}
        return review.answer(review.document | {"status": status})

    async def rules(self, call: Call) -> Answer:
        """SelfSubjectRulesReview."""
        review = await read_aside(call, posted, call, _expected(call))
        namespace = review.document["spec"].get("namespace", "")
        if not namespace:
            raise BadRequest("no namespace on request")
        rules, problems = self.authorizer.rbac.rules_for(call.user, namespace)
        incomplete = node_of(call.user) is not None
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


def _expected(call: Call) -> Expected:
    resource = call.served.resource
    return Expected(resource.api_version, resource.kind, call.served.definition)


def _type(document: Document) -> Document:
    return {"kind": document["kind"], "apiVersion": document["apiVersion"]}


def _user_document(user: User) -> Document:
    extra = {key: list(values) for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
