"""The worker's view of the catalog, on a real database: caching, expiry of caches, and permanent failures."""

import pytest
from sqlalchemy import text

from app.catalog import loader, revision
from app.catalog.crypto import SecretBox, generate_key
from app.catalog.loader import Catalog, SecretUnreadableError
from app.catalog.named_table import CONFIGS, SECRETS
from app.catalog.retry_policy import RetryPolicy
from app.catalog.scrub import MASK
from app.kernel import db
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.errors import TemplateError, UnavailableError
from app.kernel.formats import Unreadable
from schema.states import EndpointType
from tests import rows

KEY = generate_key()
SPEC = {
    "url": "{{config.base}}/{{input.id}}",
    "headers": {"Authorization": "Bearer {{secret.token}}"},
    "body_template": {"n": "{{input.n}}"},
}


class Clock:
    """A clock that shows the time set by the test."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def catalog(database, clock):
    box = SecretBox.from_setting(KEY)
    CONFIGS.create(database, "conf", {"base": "https://one.example"}, AuditedChange(SYSTEM))
    SECRETS.create(database, "token", box.encrypt("hunter2"), AuditedChange(SYSTEM))
    rows.add_endpoint(database, "e", spec=SPEC, config_ref="conf", retry_policy={"max_attempts": 3})
    catalog = Catalog(database, box, config_ttl_seconds=60, secret_ttl_seconds=300, clock=clock)
    catalog.observe(_revision(database))
    return catalog


def _revision(database):
    return database.fetch(text("SELECT revision FROM catalog_revision WHERE id = 'catalog'"))[0].revision


def prepare(catalog, endpoint="e", version=1, input_=None, config_revision=0):
    return catalog.prepare(endpoint, version, {"id": 7, "n": 1.5} if input_ is None else input_, config_revision)


def change_without_a_revision(database, config=None, secret=None):
    """Change rows without incrementing the revision. The API always increments the revision."""
    if config:
        database.fetch(text("UPDATE configs SET values_json = CAST(:v AS JSONB)"), {"v": f'{{"base": "{config}"}}'})
    if secret:
        database.fetch(
            text("UPDATE secrets SET encrypted_value = :v"), {"v": SecretBox.from_setting(KEY).encrypt(secret)}
        )


def url_and_authorization(catalog):
    spec = prepare(catalog).spec
    return spec["url"], spec["headers"]["Authorization"]


def test_unreadable_input_fails_permanently_even_if_the_spec_uses_no_input(database, catalog):
    rows.add_endpoint(database, "constant", spec={"url": "http://127.0.0.1:9/", "method": "POST"})
    with pytest.raises(TemplateError, match="The input cannot be read: it is odd"):
        prepare(catalog, "constant", input_=Unreadable(unreadable="it is odd"))


def test_input_is_rendered_into_the_spec(catalog):
    prepared = prepare(catalog)
    assert prepared.endpoint_type is EndpointType.HTTP
    assert prepared.policy == RetryPolicy(max_attempts=3)
    assert prepared.spec["url"] == "https://one.example/7"
    assert prepared.spec["body_template"] == {"n": 1.5}
    assert prepared.spec["timeout_ms"] == 30_000
    assert prepared.scrubber.scrub(prepared.spec["headers"]) == {"Authorization": f"Bearer {MASK}"}
    assert "hunter2" not in repr(prepared)


def rotate(database):
    SECRETS.replace(database, "token", SecretBox.from_setting(KEY).encrypt("rotated"), AuditedChange(SYSTEM))


def replace_config(database, base):
    """Change the config; return the first revision with the new config."""
    CONFIGS.replace(database, "conf", {"base": base}, AuditedChange(SYSTEM))
    return _revision(database)


def test_next_claim_uses_a_changed_secret(catalog, database):
    assert url_and_authorization(catalog)[1] == "Bearer hunter2"
    rotate(database)
    assert url_and_authorization(catalog)[1] == "Bearer hunter2"
    catalog.observe(_revision(database))
    catalog.observe(0)  # a delayed claim may report an older revision
    assert url_and_authorization(catalog)[1] == "Bearer rotated"


@pytest.mark.parametrize("is_cached", [True, False])
def test_config_of_an_older_revision_is_unaffected_by_later_changes(catalog, database, is_cached):
    first = _revision(database)
    if is_cached:
        prepare(catalog, config_revision=first)
    second = replace_config(database, "https://two.example")
    rotate(database)  # increments the revision, and changes no config
    between = _revision(database)
    third = replace_config(database, "https://three.example")
    catalog.observe(third)
    revisions = {first: "one", second: "two", between: "two", third: "three", third + 1: "three"}
    for revision_, host in revisions.items():
        assert prepare(catalog, config_revision=revision_).spec["url"] == f"https://{host}.example/7"


def test_deleted_config_is_available_to_executions_started_before(catalog, database):
    began = _revision(database)
    database.fetch(text("UPDATE endpoints SET deleted_at = now(), config_ref = NULL"))
    CONFIGS.delete(database, "conf", AuditedChange(SYSTEM))
    assert prepare(catalog, config_revision=began).spec["url"] == "https://one.example/7"
    with pytest.raises(TemplateError, match="conf"):
        prepare(catalog, config_revision=_revision(database))


class DelayedSecretRead(Database):
    """A database that calls a function between the read of a secret and the return of the result."""

    after_secret_read = staticmethod(lambda: None)

    def fetch(self, statement, params=None):
        result = super().fetch(statement, params)
        if statement is loader.SECRETS:
            self.after_secret_read()
        return result


def test_secret_read_before_a_new_revision_is_not_cached_beyond_it(catalog, database):
    slow = DelayedSecretRead(database.engine, database.fire_and_forget)
    catalog = Catalog(slow, SecretBox.from_setting(KEY), config_ttl_seconds=60, secret_ttl_seconds=60)

    def change():
        slow.after_secret_read = lambda: None
        rotate(database)
        catalog.observe(_revision(database))

    slow.after_secret_read = change
    assert url_and_authorization(catalog)[1] == "Bearer hunter2"
    assert url_and_authorization(catalog)[1] == "Bearer rotated"


def test_configs_and_secrets_each_have_a_time_to_live(catalog, database, clock):
    url_and_authorization(catalog)
    change_without_a_revision(database, "https://two.example", "rotated")
    clock.now = 59.9
    assert url_and_authorization(catalog) == ("https://one.example/7", "Bearer hunter2")
    clock.now = 60
    assert url_and_authorization(catalog) == ("https://two.example/7", "Bearer hunter2")
    clock.now = 300
    assert url_and_authorization(catalog) == ("https://two.example/7", "Bearer rotated")


def test_endpoint_version_is_cached_for_ever(catalog, database, clock):
    url_and_authorization(catalog)
    database.fetch(text("DELETE FROM endpoint_versions WHERE endpoint = 'e'"))
    clock.now = 1e9
    database.transact(revision.bump)
    catalog.observe(_revision(database))
    assert url_and_authorization(catalog)[0] == "https://one.example/7"


def add_variant(database, **fields):
    rows.add_endpoint(database, "other", **fields)
    return {"endpoint": "other"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda _: {"version": 9}, "Version 9"),
        (lambda _: {"endpoint": "nope"}, "nope"),
        (lambda _: {"input_": {}}, "input.id"),
        (lambda _: {"input_": {"id": ".", "n": 1}}, "path segment"),
        (lambda d: add_variant(d, spec={"url": "{{config.b}}"}), "config.b"),
        (lambda d: add_variant(d, spec={"url": "https://h/{{secret.nope}}"}), "secret.nope"),
        (lambda d: add_variant(d, spec={"url": "https://h/{{"}), "balanced"),
    ],
)
def test_unresolvable_reference_fails_permanently(catalog, database, arguments, message):
    with pytest.raises(TemplateError, match=message) as caught:
        prepare(catalog, **arguments(database))
    assert "hunter2" not in caught.value.message


def test_missing_config_fails_permanently(catalog, database):
    # The API refuses to delete a config in use; an operator with SQL can delete it.
    database.fetch(text("UPDATE endpoints SET config_ref = NULL"))
    database.fetch(text("DELETE FROM configs"))
    with pytest.raises(TemplateError, match="conf"):
        prepare(catalog)


@pytest.mark.parametrize(
    ("box", "message"), [(None, "not set"), (SecretBox.from_setting(generate_key()), "none of the keys")]
)
def test_undecryptable_secret_is_no_template_error(catalog, database, box, message, caplog):
    without_key = Catalog(database, box, config_ttl_seconds=1, secret_ttl_seconds=1)
    with pytest.raises(SecretUnreadableError, match=message) as caught:
        prepare(without_key)
    assert "token" in str(caught.value)
    with pytest.raises(SecretUnreadableError):
        prepare(without_key)
    (line,) = caplog.messages
    assert message in line, "one log line names the cause"
    assert "secrets status" in line, "the log line names the next step"


def test_endpoint_without_secrets_needs_no_key(database):
    rows.add_endpoint(database, "plain", spec={"url": "https://h/"})
    catalog = Catalog(database, None, config_ttl_seconds=1, secret_ttl_seconds=1)
    assert prepare(catalog, "plain").spec["url"] == "https://h/"


def test_unreachable_database_raises_unavailable_and_not_a_template_error():
    unreachable = db.connect("postgresql://u:p@127.0.0.1:1/x", pool_size=1, application_name="t")
    catalog = Catalog(unreachable, None, config_ttl_seconds=1, secret_ttl_seconds=1)
    with pytest.raises(UnavailableError):
        prepare(catalog)
    unreachable.close()


def test_target_depends_on_config_and_secrets_and_shows_no_secret(database, catalog, clock):
    before = prepare(catalog, config_revision=_revision(database)).target
    assert before == "https:one.example:443"
    CONFIGS.replace(database, "conf", {"base": "http://u:{{x}}@two.example:81"}, AuditedChange(SYSTEM))
    assert prepare(catalog, config_revision=_revision(database)).target == "http:two.example:81"
    assert prepare(catalog, config_revision=_revision(database) - 1).target == before

    rows.add_endpoint(database, "hidden", spec={"url": "https://{{secret.token}}.example/"})
    hidden = prepare(catalog, "hidden").target
    assert hidden.startswith(f"https:{MASK}.example:443~")
    box = SecretBox.from_setting(KEY)
    SECRETS.replace(database, "token", box.encrypt("correct-horse"), AuditedChange(SYSTEM))
    catalog.observe(_revision(database))
    rotated = prepare(catalog, "hidden").target
    assert rotated.startswith(f"https:{MASK}.example:443~")
    assert rotated != hidden


@pytest.mark.parametrize(
    ("value", "url", "target"),
    [
        ("geheimwort\u00fc", "https://{{secret.token}}.example/{{input.id}}", f"https:{MASK}.example:443"),
        ("GeheimWort", "https://a-{{secret.token}}.example/", f"https:a-{MASK}.example:443"),
        ("https://geheimwort\u00fc.example:81", "{{secret.token}}/a", f"https:{MASK}"),
        ("8443", "https://one.example:{{secret.token}}/", f"https:{MASK}"),
    ],
)
def test_secret_in_a_host_is_masked_in_every_spelling(database, catalog, value, url, target):
    """Host names are sent in lower case, and non-ASCII names as `xn--…`, so a secret can appear in another spelling."""
    box = SecretBox.from_setting(KEY)
    SECRETS.replace(database, "token", box.encrypt(value), AuditedChange(SYSTEM))
    catalog.observe(_revision(database))
    rows.add_endpoint(database, "hidden", spec={"url": url})
    shown = prepare(catalog, "hidden").target
    assert shown.rpartition("~")[0] == target


def test_target_of_many_servers_has_a_name_that_fits_into_a_key(database, catalog):
    servers = ",".join(f"kafka-{number}.example:9092" for number in range(100, 300))
    for name, bootstrap in (("many", servers), ("more", f"{servers},zoo.example:9092")):
        spec = {"bootstrap_servers": bootstrap, "topic": "t", "value_template": 1}
        rows.add_endpoint(database, name, type_=EndpointType.KAFKA, spec=spec)
    many, more = prepare(catalog, "many").target, prepare(catalog, "more").target
    assert many[:150] == more[:150] == f"kafka:{servers}"[:150]
    assert many != more
    assert len(many) == len(more) < 200


def test_each_channel_is_a_separate_target(database, catalog):
    """A service throttles single accounts. One throttled account must not stop other channels of the same service."""
    urls = {
        "one": "slack://{{secret.token}}/#ops",
        "same": "slack://{{secret.token}}/#ops",
        "room": "slack://{{secret.token}}/#{{config.base}}",
        "other": "slack://{{secret.other}}/#ops",
        "whole": "{{secret.whole}}",
        "own": ["json://h.example/a", "mailto://me:{{secret.token}}@mail.example"],
    }
    box = SecretBox.from_setting(KEY)
    for secret, value in (("other", "hunter2"), ("whole", "slack://hunter2/#ops")):
        SECRETS.create(database, secret, box.encrypt(value), AuditedChange(SYSTEM))
    for name, url in urls.items():
        spec = {"url": url, "title": "t", "body": "b"}
        rows.add_endpoint(database, name, type_=EndpointType.NOTIFICATION, spec=spec, config_ref="conf")
    catalog.observe(_revision(database))

    def targets():
        return {name: prepare(catalog, name, config_revision=_revision(database)).target for name in urls}

    found = targets()
    assert found["one"] == found["same"]
    assert len(set(found.values())) == len(urls) - 1
    servers = {name: target.rpartition("~")[0] for name, target in found.items()}
    own_servers = "json:h.example:80,mailto:mail.example:25"
    slack = dict.fromkeys(("one", "same", "room", "other"), "slack")
    assert servers == {**slack, "whole": f"slack:{MASK}", "own": own_servers}

    SECRETS.replace(database, "token", box.encrypt("correct-horse"), AuditedChange(SYSTEM))
    catalog.observe(_revision(database))
    assert targets() == found, "a target depends on the names of secrets, not on the values"
