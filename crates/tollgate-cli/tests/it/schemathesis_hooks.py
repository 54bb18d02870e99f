"""Changes what schemathesis asks: a `take` waits for no job, and no batch has wrong items."""

import re

import schemathesis


@schemathesis.hook
def map_body(context, body):
    """A time that is right becomes none; one that is wrong stays so."""
    wait = body.get("wait") if isinstance(body, dict) else None
    if isinstance(wait, str) and re.fullmatch("0|[1-9][0-9]?s|[1-9][0-9]{0,3}ms", wait):
        return {**body, "wait": "0"}
    return body


@schemathesis.hook
def filter_case(context, case):
    """A batch with a wrong item is answered by 200, with a problem in the place of that item."""
    generation = getattr(case.meta, "generation", None)
    mode = getattr(getattr(generation, "mode", None), "value", None)
    body = case.body
    is_batch = isinstance(body, dict) and isinstance(body.get("checks"), list) and body["checks"]
    return not (mode == "negative" and is_batch)
