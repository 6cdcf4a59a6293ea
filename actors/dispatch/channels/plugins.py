"""Plugins of Apprise: loads those of the schemes that channels may have, and gives them our way out.

Apprise would load all of its plugins, those that run something on this machine too. It is imported when the first
message is sent: it takes a second and some 30 MB, which most workers never need.
"""

import logging
import sys
import threading
import time
from importlib import import_module
from typing import Any

import apprise

from actors.dispatch.channels.channel_outcome import ERROR
from actors.dispatch.channels.mail import Smtplib
from actors.dispatch.channels.outlet import CURRENT, current
from actors.dispatch.channels.web import Requests
from app.catalog.specs.channels import CHANNELS, REFUSED_PARAMETERS, divide
from app.queue.executions.execution_model import DeliveryError

_SILENCED = ("apprise", "requests", "urllib3", "charset_normalizer", "markdown", "MARKDOWN")
_MODULES = {"requests": Requests(), "smtplib": Smtplib()}
MOST_WORDS = 300
_lock = threading.Lock()


class _Time:
    """Stands for the module `time`: the waits of services end with the attempt."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        current().sleep(seconds)


class _OutsideOnly(logging.Filter):
    """Lets no line through that is logged while a message is sent: it may show a URL with a token in it."""

    def filter(self, _record: logging.LogRecord) -> bool:
        return CURRENT.get(None) is None


_OUTSIDE_ONLY = _OutsideOnly()


def notify(url: str, title: str, body: str, severity: str) -> bool:
    """Send a message to one channel on this thread; returns whether its service took it, as far as Apprise says.

    Raises DeliveryError where the URL cannot be used.
    """
    library: Any = apprise
    asset = library.AppriseAsset(plugin_paths=[], storage_mode=library.PersistentStoreMode.MEMORY, service_timeout=0)
    asset.async_mode, asset.http_redirects, asset.secure_logging = False, False, True
    asset.app_id = asset.app_desc = "Task Executor"
    asset.pgp_autogen = asset.pem_autogen = False
    plugin = _plugin(url, asset)
    timeout = current().left()
    plugin.socket_read_timeout = plugin.socket_connect_timeout = timeout
    one = library.Apprise(asset=asset)
    one.add(plugin)
    kind = {"warning": library.NotifyType.WARNING, "critical": library.NotifyType.FAILURE}.get(severity)
    return bool(
        one.notify(
            body=body,
            title=title,
            notify_type=kind or library.NotifyType.INFO,
            body_format=library.NotifyFormat.TEXT,
        )
    )


def class_of(url: str) -> Any:
    """Return the plugin that sends to a channel; raises DeliveryError."""
    parts = divide(url)
    channel = None if parts is None else CHANNELS.get(parts.scheme)
    if channel is None:
        raise DeliveryError(ERROR, "the URL is not that of a channel", permanent=True)
    module_name, _, class_name = channel.plugin.partition(":")
    class_ = getattr(import_module(f"apprise.plugins.{module_name}"), class_name)
    with _lock:
        plug()
    return class_


def _plugin(url: str, asset: Any) -> Any:
    class_, scheme = class_of(url), url.strip().partition(":")[0].lower()
    # Apprise's own reader decides what is sent, so it decides what is refused as well.
    read = class_.parse_url(url.strip().replace("/#", "/%23"))
    if not read or read.get("schema", scheme) != scheme:
        raise _unusable(scheme)
    refused = sorted({name.lower() for name in read.get("qsd", {})} & REFUSED_PARAMETERS.keys())
    if refused:
        raise DeliveryError(
            ERROR, f"the parameter {refused[0]!r} is not allowed in the URL of a channel", permanent=True
        )
    read |= {"schema": scheme, "asset": asset, "tag": set()}
    try:
        plugin = class_(**read)
    except Exception as error:  # noqa: BLE001 - whatever it does not like of the URL
        raise _unusable(scheme, str(error)) from None
    if "overflow" not in read.get("qsd", {}):
        plugin.overflow_mode = apprise.OverflowMode.TRUNCATE
    return plugin


def _unusable(scheme: str, words: str = "") -> DeliveryError:
    # Its words may repeat a part of the URL: they are scrubbed as the words of receivers are.
    quote = f": {words[:MOST_WORDS]}" if words else ""
    return DeliveryError(ERROR, f"Apprise cannot use the URL as one of {scheme}://", quote=quote, permanent=True)


def plug() -> None:
    """Give all modules of Apprise that are loaded ours for those that open connections, and silence the loggers."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "apprise" and module is not None:
            for one, ours in _MODULES.items():
                if getattr(module, one, None) is sys.modules.get(one, ours):
                    setattr(module, one, ours)
            if getattr(module, "time", None) is time:
                module.time = _Time()  # type: ignore[attr-defined]
    for name in [*_SILENCED, *logging.root.manager.loggerDict]:
        if name.partition(".")[0] in _SILENCED:
            logging.getLogger(name).addFilter(_OUTSIDE_ONLY)
