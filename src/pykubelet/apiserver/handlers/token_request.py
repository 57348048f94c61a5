"""TokenRequest: issues tokens through the `token` subresource of service accounts.

Upstream: pkg/registry/core/serviceaccount/storage/token.go, pkg/apis/authentication/validation/validation.go
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from pykubelet.aio.clock import Clock
from pykubelet.api import field_errors
from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError, go_quote
from pykubelet.api.schema import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes, AdmissionPlugin
from pykubelet.apiserver.admission.plugin.dynamic import DynamicAdmission
from pykubelet.apiserver.admission.plugin.webhook.reviews import reviewed
from pykubelet.apiserver.authentication.serviceaccount import (
    EXTENDED_SECONDS,
    WARN_ONLY_SECONDS,
    BoundObject,
    ServiceAccountTokens,
    TokenSubject,
)
from pykubelet.apiserver.errors import conflict, invalid, not_found
from pykubelet.apiserver.handlers.options import stated_options
from pykubelet.apiserver.handlers.write import run_admission
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import ExpectedKind, decode_in_thread, read_posted_object
from pykubelet.apiserver.storage.interfaces import Store, StoreKey

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_EXPECTED = ExpectedKind(f"{_GROUP}/v1", _KIND, "authentication.v1.TokenRequest")
_DEFAULT_SECONDS = 3600
_MIN_SECONDS = 600
_MAX_SECONDS = 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequests:
    """The handler of the subresource `serviceaccounts/token`."""

    tokens: ServiceAccountTokens
    store: Store
    clock: Clock
    admission: Sequence[AdmissionPlugin] = ()
    dynamic: DynamicAdmission = field(default_factory=DynamicAdmission)

    async def __call__(self, request: ApiRequest) -> ApiResponse:
        """Issues a token for the service account that the request names."""
        posted = await decode_in_thread(request, read_posted_object, request, _EXPECTED)
        document = await self._admitted(request, posted.document, dry_run=posted.options.dry_run)
        account = self._account(request, document["metadata"])
        audiences = document["spec"].get("audiences") or list(self.tokens.audiences)
        seconds = document["spec"].get("expirationSeconds", _DEFAULT_SECONDS)
        if errors := _duration_errors(seconds):
            raise invalid(_KIND, _GROUP, "", errors)
        reference = document["spec"].get("boundObjectRef")
        subject = self._subject(request, account, reference)
        now = self.clock.now()
        extends = subject.pod and seconds == WARN_ONLY_SECONDS and set(audiences) <= set(self.tokens.audiences)
        token = self.tokens.issue(
            subject,
            audiences=audiences,
            seconds=EXTENDED_SECONDS if extends else seconds,
            warn_after_seconds=seconds if extends else 0,
        )
        metadata = {
            "name": account.name,
            "namespace": request.namespace,
            "uid": account.uid,
            "creationTimestamp": format_time(now),
        }
        expires = format_time(now + timedelta(seconds=seconds))
        answer = posted.answer(
            document
            | {
                "metadata": document["metadata"] | metadata,
                "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
                "status": {"token": token, "expirationTimestamp": expires},
            }
        )
        # Go writes this field even if it is empty.
        answer.document["spec"].setdefault("boundObjectRef", None)
        return answer

    async def _admitted(self, request: ApiRequest, document: Document, *, dry_run: bool) -> Document:
        attributes = AdmissionAttributes(
            user=request.user,
            verb="create",
            served=request.served,
            namespace=request.namespace,
            name=request.name,
            subresource="token",
            dry_run=dry_run,
            warn=request.warnings.append,
            state_options=partial(stated_options, request),
            annotate=request.annotations.__setitem__,
        )
        reviews, run = self.dynamic.reviews(), partial(run_admission, self.admission)

        async def admitted() -> Document:
            admit = run if reviews is None else partial(reviews.admit, run=run)
            new = admit(attributes, document, None) or document
            for validate in (
                self.dynamic.validation if reviews is None else (*self.dynamic.validation, reviews.validate)
            ):
                validate(attributes, new, None)
            return new

        return await reviewed(admitted)

    def _account(self, request: ApiRequest, metadata: Document) -> BoundObject:
        """The account in the path; BadRequest if the body names another one."""
        if metadata.get("name", request.name) != request.name:
            text = "must match the service account name if specified"
            raise invalid(_KIND, _GROUP, request.name, [field_errors.invalid("metadata.name", metadata["name"], text)])
        found = self._named(SERVICE_ACCOUNTS, request.namespace, request.name)[0]
        if (uid := metadata.get("uid", found.uid)) != found.uid:
            why = f"the UID in the token request ({uid}) does not match the UID of the service account ({found.uid})"
            raise conflict(Resource(_GROUP, "v1", _KIND, _KIND), request.name, why)
        return found

    def _subject(self, request: ApiRequest, account: BoundObject, reference: Document | None) -> TokenSubject:
        subject = TokenSubject(namespace=request.namespace, account=account)
        if reference is None:
            return subject
        version, kind, name = (reference.get(field, "") for field in ("apiVersion", "kind", "name"))
        resource = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}.get(kind)
        group, _, plain_version = version.rpartition("/")
        if resource is None or group:
            shown = f"{group}/{plain_version}, Kind={kind}"
            raise BadRequest(f"cannot bind token to object of type {shown}")
        named, bound = self._named(resource, request.namespace if resource.namespaced else "", name)
        node = None
        if resource is PODS:
            if bound["spec"].get("serviceAccountName", "") != request.name:
                raise BadRequest(
                    f"cannot bind token for serviceaccount {go_quote(request.name)} to pod running with different serviceaccount name."
                )
            node = self._node_of(bound)
        if (uid := reference.get("uid", named.uid)) != named.uid:
            why = f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            raise conflict(Resource("", "v1", kind, kind), name, why)
        return TokenSubject(
            namespace=request.namespace,
            account=account,
            pod=named if resource is PODS else None,
            secret=named if resource is SECRETS else None,
            node=named if resource is NODES else node,
        )

    def _node_of(self, pod: Document) -> BoundObject | None:
        """The node of a pod; if the Node object does not exist, its name alone."""
        name = pod["spec"].get("nodeName", "")
        if not name:
            return None
        entry = self.store.get(StoreKey("nodes", "", name))
        return BoundObject(name, "" if entry is None else entry.document["metadata"].get("uid", ""))

    def _named(self, resource: Resource, namespace: str, name: str) -> tuple[BoundObject, Document]:
        entry = self.store.get(StoreKey(resource.plural, namespace, name))
        if entry is None:
            raise not_found(resource, name)
        document = entry.document
        return BoundObject(name, document["metadata"].get("uid", "")), document


def _duration_errors(seconds: int) -> list[FieldError]:
    path = "spec.expirationSeconds"
    if seconds < _MIN_SECONDS:
        return [field_errors.invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_SECONDS:
        return [field_errors.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []
