"""Actions: forms that stand for an operation of the API, have its scope, and call the same function."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from flask import Blueprint, Response, jsonify, redirect, request

from app.console.access.guard import own_path
from app.console.access.permission import Permissions
from app.console.http import notices
from app.features.control.shared_figures import forget_figures
from app.kernel.errors import InvalidRequestError
from app.kernel.function_types import AnyFunction
from app.web.http.idempotent_requests import run_once

ONCE, BACK = "once", "back"  # fields of each form: its idempotency key, and the page that has it
_MAX_ONCE = 100


class _UndoneError(Exception):
    """An action answered with a page: all that it wrote until then is undone."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


View = TypeVar("View", bound=Callable[..., "Done | Response"])


class Done(NamedTuple):
    """An action that was done: a notice for the next page, and its path; empty for the page that has the form."""

    notice: str
    to: str = ""


ACTIONS: dict[str, AnyFunction] = {}
"""Views by operation, of all pages that were imported."""


def action(operation: str) -> Callable[[View], View]:
    """Register a view as the action of an operation, such as `POST /workers/<worker_id>/drain`.

    The view takes the parts of the path by name, and runs once per form: in one transaction with its idempotency key.
    It returns Done, or an answer with the form and its faults, which undoes that transaction. All pages may show the
    form of an action. `PUT /jobs/<job_id> spread` is an action about several jobs, with the scope of the operation.
    """

    def decorate(view: View) -> View:
        if operation in ACTIONS:
            raise ValueError(f"{operation} has an action already: {ACTIONS[operation].__module__}")
        ACTIONS[operation] = view
        return view

    return decorate


def address(operation: str, **path: str) -> str:
    """Return the address of an action's form."""
    method, route, *several = operation.split(" ")
    route = f"/{several[0]}" if several else route
    for name, value in path.items():
        route = route.replace(f"<{name}>", quote(value, safe=""))
    return f"/console/do/{method.lower()}{route}"


def register(blueprint: Blueprint, permissions: Permissions) -> None:
    """Add the actions of all pages."""
    for number, (operation, view) in enumerate(ACTIONS.items()):
        route = f"action_{number}"
        permissions.declare(route, " ".join(operation.split(" ")[:2]))
        rule = address(operation).removeprefix("/console")
        blueprint.add_url_rule(rule, route, partial(_run, view), methods=["POST"])


def _run(view: AnyFunction, **path: str) -> Response:
    key = request.form.get(ONCE, "")
    if not 1 <= len(key) <= _MAX_ONCE:
        raise InvalidRequestError("The form has no key of its own. Reload the page, and try again.")
    try:
        answer = run_once(partial(_stored, view), _key_of(key), "", path)
    except _UndoneError as undone:
        return undone.answer
    done: Mapping[str, str] = json.loads(answer.get_data())
    forget_figures()
    sent: Response = redirect(own_path(done["to"] or request.form.get(BACK, "")), 303)  # type: ignore[assignment]
    notices.keep(sent, done["notice"])
    return sent


def _stored(view: AnyFunction, **path: Any) -> Response:
    done = view(**path)
    if not isinstance(done, Done):
        raise _UndoneError(done)
    return jsonify(notice=done.notice, to=done.to)


def _key_of(once: str) -> str:
    """Return an idempotency key: a form that is sent again with other values is another request."""
    fields = sorted((name, value) for name, value in request.form.items(multi=True) if name != BACK)
    return f"console-{hashlib.sha256(json.dumps([once, request.path, fields]).encode()).hexdigest()}"
