"""Choice of the time zone of the viewer: for keys that may see the overview."""

from flask import Blueprint, Response, redirect, request

from app.console.access.guard import own_path
from app.console.access.permission import Permissions
from app.console.http import viewer_zone
from app.console.http.actions import BACK
from app.console.http.console_page import ConsolePage, Values
from app.schedule.zones import fault_of, names

page = ConsolePage("time_zone", "/time-zone", "Time zone", reads="GET /stats/figures", has_request=False)


@page.show
def show() -> Values:
    return _form(viewer_zone.zone_name(), request.args.get(BACK, ""))


def register(blueprint: Blueprint, permissions: Permissions) -> None:
    """Add the form, which stands for no operation of the API: it changes a cookie."""
    permissions.declare("keep_time_zone", None)
    blueprint.add_url_rule(page.path, "keep_time_zone", _keep, methods=["POST"])


def _keep() -> Response:
    zone, back = request.form.get("zone", "").strip(), request.form.get(BACK, "")
    if fault := fault_of(zone):
        return page.answer({}, _form(zone, back, fault), 422)
    answer: Response = redirect(own_path(back), 303)  # type: ignore[assignment] # Flask's own response class
    viewer_zone.keep(answer, zone)
    return answer


def _form(zone: str, back: str, fault: str = "") -> Values:
    return {"chosen": zone, "zones": sorted(names()), BACK: own_path(back), "fault": fault, "usual": viewer_zone.USUAL}
