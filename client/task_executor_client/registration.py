"""Registration of endpoints declared in code: comparison with the stored definitions, and their update."""

import dataclasses
import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, ParamSpec, TypeVar

from .answer import etag
from .call import Call
from .definition_differences import differing, is_same
from .errors import ConflictError, NotFoundError, PreconditionFailedError
from .failures import TaskExecutorError
from .schema_of import as_json, schema_of_function, whole_input

P = ParamSpec("P")
R = TypeVar("R")


class RegistrationConflictError(TaskExecutorError):
    """Conflict with a stored endpoint: its type differs, or another client changed it concurrently.

    After a concurrent change, call `register` again. An endpoint of another type must be deleted, or the declaration
    renamed.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Change of a payload spec or an endpoint, as returned by `register`.

    Attributes:
        kind: `payload_spec` or `endpoint`.
        name: Name of the definition.
        action: `create`, `replace` or `none`.
        fields: Fields that differ; for a new endpoint all declared fields.
        version_before: Version of the stored endpoint; None for a new endpoint and for a payload spec.
        version_after: Version of the endpoint afterwards; None for a change in a dry run and for a payload spec.

    Example:
        changed = [change.name for change in te.register() if change.action != "none"]
    """

    kind: str
    name: str
    action: str
    fields: tuple[str, ...] = ()
    version_before: int | None = None
    version_after: int | None = None


class Declared(Generic[P, R]):
    """Function declared as an endpoint; calling it calls the function. The decorator `endpoint` of a client returns it.

    Args:
        function: Function whose arguments are the input of the endpoint.
        body: Fields of `endpoints.create` with `name` and `type`.

    Attributes:
        function: The declared function.
        name: Name of the endpoint and of its payload spec.
        schema: JSON Schema of the input.
        body: Fields of `endpoints.create`, `payload_spec` included.

    Raises:
        TypeError: An argument of the function has no type, or a type that JSON does not have.

    Example:
        @te.endpoint(spec={"url": "https://mail.example.org", "body_template": "{{input}}"})
        def send_mail(to: str) -> None: ...


        te.jobs.create(endpoint=send_mail.name, trigger="IMMEDIATE", input=send_mail.input(to="a@example.org"))
    """

    def __init__(self, function: Callable[P, R], body: dict[str, Any]) -> None:
        self.function = function
        self.name: str = body["name"]
        self.schema = schema_of_function(function)
        self.body = body | {"payload_spec": self.name}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def input(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Return the input of a job for these arguments.

        Omitted arguments with a default stay out of the input. If a TypedDict or dataclass is the only argument, its
        fields are the input.

        Args:
            *args: Arguments as for a call of the function.
            **kwargs: Arguments as for a call of the function.

        Returns:
            Input for `jobs.create`; dataclasses are dictionaries.

        Raises:
            TypeError: The arguments do not fit the function.

        Example:
            send_mail.input("a@example.org")  # {"to": "a@example.org"}
        """
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        given: Any = bound.arguments
        if whole_input(self.function) is not None:
            bound.apply_defaults()
            (given,) = bound.arguments.values()
        written: dict[str, Any] = as_json(given)
        return written


class Declarations:
    """Endpoints declared on a client, by name. Not thread-safe."""

    def __init__(self) -> None:
        self.each: dict[str, Declared[..., Any]] = {}

    def add(self, function: Callable[P, R], body: dict[str, Any]) -> Declared[P, R]:
        """Declare an endpoint.

        Args:
            function: Function whose arguments are the input.
            body: Fields of `endpoints.create` with `name` and `type`.

        Returns:
            The declared function.

        Raises:
            ValueError: The name is declared already.
            TypeError: An argument has no type, or a type that JSON does not have.
        """
        declared = Declared(function, body)
        if declared.name in self.each:
            raise ValueError(f"the endpoint {declared.name!r} is declared twice")
        self.each[declared.name] = declared
        return declared

    def register(self, *, dry_run: bool) -> Generator[Call, Any, list[Change]]:
        """Yield the calls that create or update the endpoints; see `drive`.

        Args:
            dry_run: Only yield calls that read.

        Returns:
            A change for each payload spec and each endpoint.

        Raises:
            RegistrationConflictError: The type differs, or another client changed a definition.
        """
        done: list[Change] = []
        for declared in self.each.values():
            done.append((yield from _unless_as_declared(_spec, declared, dry_run)))
            done.append((yield from _unless_as_declared(_endpoint, declared, dry_run)))
        return done


Steps = Generator[Call, Any, Change]


def _unless_as_declared(register: Callable[..., Steps], declared: Declared[..., Any], dry_run: bool) -> Steps:
    try:
        return (yield from register(declared, dry_run))
    except (PreconditionFailedError, ConflictError) as error:
        # Another process with the same code may have written the same definition just now.
        found = yield from register(declared, True)
        if found.action == "none":
            return found
        raise RegistrationConflictError(
            f"{declared.name}: another client changed the definition concurrently; register again"
        ) from error


def _spec(declared: Declared[..., Any], dry_run: bool) -> Steps:
    stored = yield from _get("payload_specs", "/payload-specs/{name}", declared.name)
    if stored is not None and is_same(stored["schema"], declared.schema):
        return Change("payload_spec", declared.name, "none")
    body = {"name": declared.name, "schema": declared.schema}
    if not dry_run:
        yield _write("payload_specs", "/payload-specs", body, stored)
    return Change("payload_spec", declared.name, "create" if stored is None else "replace", ("schema",))


def _endpoint(declared: Declared[..., Any], dry_run: bool) -> Steps:
    body = declared.body
    stored = yield from _get("endpoints", "/endpoints/{name}", declared.name)
    if stored is not None and stored["type"] != body["type"]:
        raise RegistrationConflictError(
            f"{declared.name}: the stored endpoint has type {stored['type']}; rename the endpoint or delete it"
        )
    fields = tuple(sorted(body)) if stored is None else differing(body, stored)
    before = None if stored is None else stored["version"]
    if not fields:
        return Change("endpoint", declared.name, "none", (), before, before)
    after = None
    if not dry_run:
        after = (yield _write("endpoints", "/endpoints", body, stored))["version"]
    return Change("endpoint", declared.name, "create" if stored is None else "replace", fields, before, after)


def _get(group: str, template: str, name: str) -> Generator[Call, Any, Any]:
    try:
        return (yield Call.of(f"{group}.get", "GET", template, path={"name": name}))
    except NotFoundError:
        return None


def _write(group: str, path: str, body: Mapping[str, Any], stored: Mapping[str, Any] | None) -> Call:
    if stored is None:
        return Call.of(f"{group}.create", "POST", path, body=body, takes_key=True)
    known = {"If-Match": etag(stored)}
    template = f"{path}/{{name}}"
    return Call.of(f"{group}.replace", "PUT", template, path={"name": body["name"]}, headers=known, body=body)
