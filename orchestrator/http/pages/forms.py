"""What a browser sends with a form: names and values, each once."""

from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

from orchestrator.errors import UsageError
from orchestrator.http.waits import body_of

_FIELDS = 40


async def form_of(request: Request, *, many: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """The fields of a form that have a value. ``many``: those that may come more than once.

    Raises ``HTTPException`` and ``UsageError``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "this takes a form")
    try:
        fields = parse_qs((await body_of(request)).decode("ascii"), strict_parsing=False, max_num_fields=_FIELDS)
    except ValueError:
        raise UsageError("this is no form") from None
    if any(len(values) > 1 and name not in many for name, values in fields.items()):
        raise UsageError("a field is given twice")
    return fields


def text_of(form: dict[str, list[str]], name: str) -> str:
    """One field; empty where it was left empty."""
    return form.get(name, [""])[0].strip()
