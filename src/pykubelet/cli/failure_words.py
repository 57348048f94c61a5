"""What an API server refuses, in kubectl's words.

Upstream: kubectl/pkg/cmd/util/helpers.go.
"""

from pykubelet.api.errors import ApiError, Invalid, NotReached


def failure_words(error: ApiError) -> str:
    """One line, or one more for each of several causes."""
    if isinstance(error, NotReached):
        return f"error: the API server does not answer: {error.message}"
    kind, name = error.details.get("kind"), error.details.get("name", "")
    if isinstance(error, Invalid) and kind and error.causes:
        causes = [f"{cause['field']}: {cause.get('message', '')}" for cause in error.causes if cause.get("field")]
        shown = f" {causes[0]}" if len(causes) == 1 else "".join(f"\n* {cause}" for cause in causes)
        return f'The {kind} "{name}" is invalid:{shown}'
    return f"Error from server ({error.reason}): {error.message}" if error.reason else f"error: {error.message}"
