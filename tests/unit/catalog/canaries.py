"""Realistic secrets, and the encodings in which receivers echo them."""

import base64
import html
import json
import textwrap
from collections.abc import Callable
from urllib.parse import quote, quote_plus

BODY = base64.b64encode(bytes(range(7, 250))).decode()
PEM = "\n".join(["-----BEGIN PRIVATE KEY-----", *textwrap.wrap(BODY, 64), "-----END PRIVATE KEY-----", ""])
KEY_FILE = json.dumps(
    {
        "type": "service_account",
        "private_key_id": "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432",
        "private_key": PEM,
        "client_email": "robot@project-1234.iam.gserviceaccount.com",
        "pin": "s3cr3t!",
    },
    indent=2,
)

SECRETS: dict[str, tuple[str, list[str]]] = {
    "webhook": (
        "https://hooks.slack.com/services/T0/B0/XYZ",
        ["/services/T0/B0/XYZ", "services/T0/B0/XYZ", "https://hooks.slack.com/services/T0/B0/XYZ?x=1", "/T0/B0/XYZ"],
    ),
    "webhook with long segments": (
        "https://hooks.slack.com/services/T0123ABCD/B0123ABCD/aB3dE6gH9jK2mN5pQ8",
        ["T0123ABCD", "B0123ABCD", "aB3dE6gH9jK2mN5pQ8", "/T0123ABCD/B0123ABCD/aB3dE6gH9jK2mN5pQ8"],
    ),
    "URL with a query": (
        "https://api.example.com/hook?code=Zq8%2Bx/9w%3D%3D&sig=u7Kp2mX",
        ["/hook?code=Zq8%2Bx/9w%3D%3D&sig=u7Kp2mX", "Zq8+x/9w==", "u7Kp2mX"],
    ),
    "bearer": ("Bearer sk-live-4eC39HqLyjWDarjtT1zdp7dc", ["sk-live-4eC39HqLyjWDarjtT1zdp7dc"]),
    "short bearer": ("Bearer hunter", ["hunter"]),
    "basic": ("Basic bob:hunter2", ["bob:hunter2", "hunter2"]),
    "encoded basic": ("Basic Ym9iOmg8bnRlciYy", ["bob:h<nter&2", "h<nter&2"]),
    "PEM": (PEM, [BODY, *textwrap.wrap(BODY, 64)[:-1], PEM.replace("\n", "\r\n"), PEM.replace("\n", " ")]),
    "key file": (
        KEY_FILE,
        [PEM, json.dumps(json.loads(KEY_FILE)), "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432", "s3cr3t!"],
    ),
    "database URL": (
        "postgresql://app:p%40ss%2Fw0rd@db.example:5432/app",
        ["p@ss/w0rd", "p%40ss%2Fw0rd", "app:p@ss/w0rd"],
    ),
    "MySQL": ("app:p4ss<w>rd@tcp(db:3306)/app?tls=true", ["p4ss<w>rd"]),
    "libpq": ("host=db user=app password='it''s k3y' sslmode=require", ["password='it''s k3y'"]),
    "ADO.NET": ("Server=db;User Id=app;Password=p&ss+w0rd;Encrypt=True", ["p&ss+w0rd"]),
    "Azure": (
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=Eby8vdM02xNOcqFlqUwJ+/Lu==;EndpointSuffix=core.windows.net",
        ["Eby8vdM02xNOcqFlqUwJ+/Lu=="],
    ),
    "key file of a redis": ("rediss://:pw-9<x>@cache.example:6380/0", ["pw-9<x>"]),
    "short": ("hunter2", []),
    "shortest": ("k3y+", []),
    "signs": ('p@ss/"1"\\<&>~?%41\'!*', []),
    "only signs": ('!@#$%^&*()_+{}|:"<>?', []),
    "not ASCII": ("pässwörd-für-тест-鍵🔑", []),
    "short and not ASCII": ("clé€", []),
    "base64": ("u7+Kp/2mXq8+x9wEby8vdM02xNOcqFl==", ["u7+Kp/2mXq8+x9wEby8vdM02xNOcqFl"]),
    "lines": ("first line of it\nsec0nd line\r\nthird\tline", ["first line of it"]),
    "with a line's end": ("hunter2\n", ["hunter2"]),
    "with spaces": ("correct horse battery staple", ["correct+horse+battery+staple"]),
    "JSON escapes in it": (r"C:\new\temp\u0041\x42%20&amp;", []),
}


def _upper_escapes(text: str) -> str:
    """Escape as ASP.NET does: all characters except letters and digits, in upper-case hex."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    return "".join(chr(c) if c < 128 and chr(c).isalnum() else f"\\u{c:04X}" for c in codes)


def _go(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return escaped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _component(text: str) -> str:
    return quote(text, safe="!'()*-._~", errors="replace")


def _lower_percent(text: str) -> str:
    return "".join(f"%{byte:02x}" if byte > 127 or not chr(byte).isalnum() else chr(byte) for byte in text.encode())


def _wrapped(width: int, end: str) -> Callable[[str], str]:
    return lambda text: end.join(textwrap.wrap(base64.b64encode(b"a user's name:" + text.encode()).decode(), width))


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in upper case": lambda text: text.upper() if text.isascii() else text,
    "read as Latin-1": lambda text: text.encode().decode("latin-1"),
    "read as ASCII": lambda text: text.encode().decode("ascii", "replace"),
    "Latin-1 read as UTF-8": lambda text: text.encode("latin-1", "replace").decode("utf-8", "replace"),
    "in ASCII": lambda text: text.encode("ascii", "replace").decode(),
    "Python": _json,
    "JavaScript": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "PHP": lambda text: _json(text).replace("/", "\\/"),
    "ASP.NET": _upper_escapes,
    "Gson": lambda text: _go(text).replace("=", "\\u003d").replace("'", "\\u0027"),
    "Go, Rails": _go,
    "JSON in JSON": lambda text: _json(_json(text)),
    "JSON in JSON by Go in PHP": lambda text: _json(_go(text)).replace("/", "\\/"),
    "JSON in JSON by ASP.NET": lambda text: _upper_escapes(_json(text)),
    "JSON in HTML": lambda text: html.escape(_json(text)),
    "HTML": html.escape,
    "HTML in decimal": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "HTML in hex": lambda text: "".join(f"&#x{ord(c):X};" for c in text),
    "named HTML": lambda text: (
        text.replace("&", "&AMP;").replace("<", "&lt;").replace("/", "&sol;").replace(":", "&colon;")
    ),
    "path": lambda text: quote(text, errors="replace"),
    "form": quote_plus,
    "component": _component,
    "percent in lower case": _lower_percent,
    "URL in URL": lambda text: quote(quote(text, safe=""), safe=""),
    "URL in JSON in HTML": lambda text: html.escape(_upper_escapes(quote(text))),
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "JavaScript in hex": lambda text: "".join(f"\\x{b:02x}" for b in text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of a user and it": lambda text: base64.b64encode(b"bo:" + text.encode()).decode(),
    "base64 of a longer user and it": lambda text: base64.b64encode(b"bob2:" + text.encode() + b"!").decode(),
    "base64 without padding": lambda text: base64.b64encode(b"b:" + text.encode()).decode().rstrip("="),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(b"b:" + text.encode()).decode().rstrip("="),
    "base64 in a form": lambda text: quote_plus(base64.b64encode(b"b:" + text.encode()).decode()),
    "base64 by ASP.NET": lambda text: _upper_escapes(base64.b64encode(b"b:" + text.encode()).decode()),
    "base64 in 64 columns": _wrapped(64, "\n"),
    "base64 in 76 columns": _wrapped(76, "\r\n"),
    "base64 in 76 columns in JSON": _wrapped(76, "\\r\\n"),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "hex with colons": lambda text: text.encode().hex(":"),
}
