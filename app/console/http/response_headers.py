"""Headers of all answers of the console: content security policy with Trusted Types, no cache, no other site."""

import secrets

from flask import Blueprint, Response, request

from app.console.http.request_values import once_a_request

_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types htmx"
)
_SAME = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer` a plain form would send `Origin: null`, which the check of origins refuses.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "",
}


def register(blueprint: Blueprint) -> None:
    """Add the headers to each answer."""

    @blueprint.after_request
    def protect(response: Response) -> Response:
        response.headers.update(_SAME)
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce())
        if request.cookies:
            response.headers.add("Vary", "Cookie")
        return response


def nonce() -> str:
    """Return the nonce of the current answer: scripts and elements with htmx attributes must have it."""
    return once_a_request("nonce", secrets.token_urlsafe, 18)
