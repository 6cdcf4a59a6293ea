"""Pages of the console: a frame, and regions that a browser refreshes by themselves."""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from flask import Blueprint, Response, current_app, g, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from app.console.access import permission, session_cookie
from app.console.access.permission import Permissions, current_key
from app.console.http import notices, page_request
from app.console.http.page_rendering import here, html, now, once, render, to
from app.console.http.response_headers import nonce
from app.kernel.access.api_keys import Scope
from app.kernel.errors import NotFoundError, TaskExecutorError
from app.web.http.error_envelope import client_error

PAGES_OF = "task_executor_console_pages"  # key of the application's extensions
THEME_COOKIE = "te_console_theme"
_THEMES = frozenset({"light", "dark"})

SCOPES = {
    Scope.READ: "see jobs, executions, endpoints and charts",
    Scope.JOBS_WRITE: "create, retry and cancel, redrive and archive",
    Scope.ADMIN: "change endpoints, limits, pauses and rules; see keys and the audit log",
}
"""Scopes by which pages and actions differ, and the actions that they allow."""

# The script counts the distance of an instant up by itself. A pattern that begins with a text is searched fast.
_DISTANCE = re.compile(" data-ago>[^<]*")

Values = dict[str, Any]
"""Variables of a template."""
ReadValues = Callable[..., Values]
"""Takes the parts of the path by name."""
Read = TypeVar("Read", bound=ReadValues)


class Region(NamedTuple):
    """Part of a page that is refreshed: `live` are the names of the changes after which a browser reads it again.

    A region that is not `refreshed` is read with its page only; the page survives its failure.
    """

    name: str
    read: ReadValues
    reads: str | None
    live: str
    pinned: bool
    refreshed: bool


class ConsolePage:
    """A page of the console; docs of its declaration are in app/console/README.md.

    Attributes:
        name: Name of its template in `templates/page`, and of its address for `to`.
        path: Its route below /console.
        nav: Name in the navigation; empty if the page is not in it.
        under: Name of the page in the navigation that is marked while this page is shown.
        after: Name of the page that a page of a feature follows in the navigation.
        examples: Queries with which the page reads most, for tests and measurements.
        link: Label of a link on the page `under`, which gives it the filter of that page; empty for no link.
        has_request: Whether `reads` answers with the values of the page, so that its footer has the request.
        regions: Its regions by name; the module of another feature may add one.
    """

    def __init__(
        self,
        name: str,
        path: str,
        title: str,
        *,
        reads: str | None,
        nav: str = "",
        shortcut: str = "",
        under: str = "",
        after: str = "",
        link: str = "",
        examples: Sequence[str] = (),
        has_request: bool = True,
    ) -> None:
        self.name = name
        self.nav = nav
        self.shortcut = shortcut
        self.under = under or name
        self.after = after
        self.link = link
        self.examples = examples
        self.title = title
        self.path = path
        self.has_request = has_request
        self._reads = reads
        self._show: ReadValues = _nothing
        self._typed: ReadValues | None = None
        self.regions: dict[str, Region] = {}

    @property
    def is_open(self) -> bool:
        """Return whether the current key may open the page by its address alone."""
        return "<" not in self.path and (self._reads is None or permission.may(self._reads))

    @property
    def curl(self) -> str:
        """Return the request of the API with the values of the page, as a command; empty without a request."""
        return page_request.curl_of(self._reads) if self.has_request and self._reads and request.method == "GET" else ""

    def show(self, read: Read) -> Read:
        """Register the function that returns the variables of the frame; it takes the parts of the path by name."""
        self._show = read
        return read

    @property
    def typing_route(self) -> str:
        """Return the name of the route for its form while it is typed."""
        return f"{self.name}_typed"

    def typed(self, read: Read) -> Read:
        """Register the function that returns the variables of the frame for a form that is still typed.

        A browser sends the form by itself, at each pause: it only reads, and counts as a region does.
        """
        self._typed = read
        return read

    def region(
        self, name: str, *, reads: str | None = None, live: str = "", pinned: bool = False, refreshed: bool = True
    ) -> Callable[[Read], Read]:
        """Register the function that returns the variables of a region, in `templates/part/<page>_<region>.html`.

        `reads` is the API operation with the scope of the region; without it, the scope of the page counts. The address
        of a `pinned` region has `until`, the instant of its page: its list changes no place under the reader.
        """

        def decorate(read: Read) -> Read:
            self.regions[name] = Region(name, read, reads or self._reads, live, pinned, refreshed)
            return read

        return decorate

    def register(self, blueprint: Blueprint, permissions: Permissions) -> None:
        permissions.declare(self.name, self._reads)
        for region in self.regions.values():
            permissions.declare(f"{self.name}?region={region.name}", region.reads)
        blueprint.add_url_rule(self.path, self.name, self._serve)
        if self._typed is not None:
            permissions.declare(self.typing_route, self._reads)
            blueprint.add_url_rule(
                self.path, self.typing_route, partial(self._answer_typed, self._typed), methods=["POST"]
            )

    def answer(self, path: Values, values: Values, status: int = 200) -> Response:
        """Return the page; also used by an action, to show its form again with faults."""
        shown = {"title": self.title} | values
        response = html(render(f"page/{self.name}.html", region=partial(self._section, path), **frame(self), **shown))
        response.status_code = status
        if notices.current():
            notices.forget(response)
        return response

    def _serve(self, **path: str) -> Response:
        wanted = request.args.get("region")
        return self._fragment(wanted, path) if wanted is not None else self.answer(path, self._show(**path))

    def _answer_typed(self, read: ReadValues, **path: str) -> Response:
        return self.answer(path, read(**path))

    def _fragment(self, name: str, path: Values) -> Response:
        """Return a region; 304 if the browser shows it already."""
        if name not in self.regions:
            raise NotFoundError("This page has no such region.")
        region = self.regions[name]
        try:
            inner = self._content(region, path)
        except TaskExecutorError as error:
            # A browser keeps and marks the old content of a region that fails; it shows a refusal.
            if error.status >= 500:
                raise
            inner = render("part/region_error.html", error=error)
        tag = _tag(inner)
        if request.headers.get("If-None-Match") == tag:
            return Response(status=304, headers={"ETag": tag})
        response = html(_section(region, inner, tag))
        response.headers["ETag"] = tag
        return response

    def _section(self, path: Values, name: str) -> Markup:
        """Return a region as a part of its page; the page survives a failure of one region."""
        region = self.regions[name]
        try:
            inner = self._content(region, path)
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 - the log has it, the region its public message
            inner = render("part/region_error.html", error=client_error(error))
        return _section(region, inner, _tag(inner))

    def _content(self, region: Region, path: Values) -> str:
        permission.check(region.reads)
        return render(f"part/{self.name}_{region.name}.html", **region.read(**path))


def frame(page: ConsolePage | None) -> Values:
    """Return the variables that the frame of each page needs."""
    pages: Sequence[ConsolePage] = current_app.extensions[PAGES_OF]
    key = current_key() if "api_key" in g else None
    return {
        "page": page,
        "key": key,
        "lacks": {scope: allowed for scope, allowed in SCOPES.items() if key is not None and not key.allows(scope)},
        "places": [(each.title, to(each.name)) for each in pages if key is not None and each.is_open],
        "navigation": [(each.nav, to(each.name), each.shortcut, each.name) for each in pages if each.nav],
        "offered": [each for each in pages if each.link and page and each.under == page.name and each.is_open],
        "notice": notices.current(),
        "theme": theme(),
        "is_insecure": not session_cookie.is_secure(),
    }


def theme() -> str:
    """Return the colours that the reader has chosen; empty to follow the system."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in _THEMES else ""


def _section(region: Region, inner: str, tag: str) -> Markup:
    until = {"until": now().isoformat()} if region.pinned and "until" not in request.args else {}
    address = here(region=region.name, **until)
    return Markup(render("part/region.html", region=region, address=address, tag=tag, inner=Markup(inner)))  # noqa: S704


def _tag(inner: str) -> str:
    """Return the entity tag of a region, without the parts that differ in each answer."""
    same = _DISTANCE.sub("", inner.replace(nonce(), "").replace(once(), ""))
    return f'"{hashlib.sha256(same.encode()).hexdigest()[:24]}"'


def _nothing(**_path: str) -> Values:
    return {}
