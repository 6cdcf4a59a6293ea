"""Body template of an HTTP endpoint, rendered with a fixed config and fixed secrets."""

from app.catalog.specs import compile_spec
from schema.states import EndpointType

HTTP, KAFKA, REDIS = EndpointType.HTTP, EndpointType.KAFKA, EndpointType.REDIS_STREAM
SECRETS = {"key": "s3cret/+ =", "multi": "a\nb"}
CONFIG = {"base": "https://api.example.com", "n": 5, "servers": "k1:9092", "obj": {"a": 1}, "url": "redis://r:6379"}
INPUT = {
    "s": "text",
    "i": 7,
    "f": 1.5,
    "t": True,
    "z": None,
    "o": {"k": "é"},
    "l": [{"id": 1}, "two"],
    "deep": {"a": {"b-c": {"_d": 1}}},
    "evil": "{{secret.key}}",
}


def body(template, input_=None):
    spec = {"url": "https://h/", "body_template": template}
    return compile_spec(HTTP, spec).render(input_ or {}, CONFIG, SECRETS)["body_template"]
