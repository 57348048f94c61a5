"""API errors printed as kubectl prints them."""

import pytest

from pykubelet.api.errors import ApiError, Conflict, Invalid, NotFound, NotReached
from pykubelet.cli.actions.session import api_error_text


def invalid(*causes: tuple[str, str]) -> Invalid:
    rows = [{"field": field, "message": message} for field, message in causes]
    return Invalid("whole", details={"kind": "Pod", "name": "web", "causes": rows})


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotFound('pods "web" not found'), 'Error from server (NotFound): pods "web" not found'),
        (Conflict("changed"), "Error from server (Conflict): changed"),
        (ApiError("odd"), "error: odd"),
        (NotReached("GET /api: refused"), "error: the API server does not answer: GET /api: refused"),
        (invalid(("spec.a", "Required")), 'The Pod "web" is invalid: spec.a: Required'),
        (invalid(("a", "x"), ("b", "y")), 'The Pod "web" is invalid:\n* a: x\n* b: y'),
        (Invalid("no details"), "Error from server (Invalid): no details"),
    ],
)
def test_api_error_text_is_that_of_kubectl(error: ApiError, words: str) -> None:
    """Several causes are printed one per line."""
    assert api_error_text(error) == words
