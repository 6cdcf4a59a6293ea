"""What a worker reads of the catalogue, on a real database: what is cached, for how long, and what fails for good."""

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
    """A clock that moves when told to."""

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


def change_behind_its_back(database, config=None, secret=None):
    """Change rows without counting a revision, which the API never does."""
    if config:
        database.fetch(text("UPDATE configs SET values_json = CAST(:v AS JSONB)"), {"v": f'{{"base": "{config}"}}'})
    if secret:
        database.fetch(
            text("UPDATE secrets SET encrypted_value = :v"), {"v": SecretBox.from_setting(KEY).encrypt(secret)}
        )


def seen(catalog):
    spec = prepare(catalog).spec
    return spec["url"], spec["headers"]["Authorization"]


def test_an_input_that_cannot_be_read_fails_for_good_whatever_the_spec_asks_for(database, catalog):
    rows.add_endpoint(database, "constant", spec={"url": "http://127.0.0.1:9/", "method": "POST"})
    with pytest.raises(TemplateError, match="the input cannot be read: it is odd"):
        prepare(catalog, "constant", input_=Unreadable(unreadable="it is odd"))


def test_an_input_is_rendered(catalog):
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
    """Change the config; returns the revision from which on it holds."""
    CONFIGS.replace(database, "conf", {"base": base}, AuditedChange(SYSTEM))
    return _revision(database)


def test_a_changed_secret_is_seen_by_the_next_claim(catalog, database):
    assert seen(catalog)[1] == "Bearer hunter2"
    rotate(database)
    assert seen(catalog)[1] == "Bearer hunter2"
    catalog.observe(_revision(database))
    catalog.observe(0)  # a claim that was on its way for longer
    assert seen(catalog)[1] == "Bearer rotated"


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_config_is_that_of_the_revision_whatever_came_later(catalog, database, is_cached):
    first = _revision(database)
    if is_cached:
        prepare(catalog, config_revision=first)
    second = replace_config(database, "https://two.example")
    rotate(database)  # moves the revision, and changes no config
    between = _revision(database)
    third = replace_config(database, "https://three.example")
    catalog.observe(third)
    revisions = {first: "one", second: "two", between: "two", third: "three", third + 1: "three"}
    for revision_, host in revisions.items():
        assert prepare(catalog, config_revision=revision_).spec["url"] == f"https://{host}.example/7"


def test_a_config_that_was_deleted_is_still_there_for_what_began_before(catalog, database):
    began = _revision(database)
    database.fetch(text("UPDATE endpoints SET deleted_at = now(), config_ref = NULL"))
    CONFIGS.delete(database, "conf", AuditedChange(SYSTEM))
    assert prepare(catalog, config_revision=began).spec["url"] == "https://one.example/7"
    with pytest.raises(TemplateError, match="conf"):
        prepare(catalog, config_revision=_revision(database))


class Overtaken(Database):
    """Lets something happen between the read of a secret and the arrival of its answer."""

    meanwhile = staticmethod(lambda: None)

    def fetch(self, statement, params=None):
        result = super().fetch(statement, params)
        if statement is loader.SECRETS:
            self.meanwhile()
        return result


def test_a_value_read_under_an_old_revision_does_not_outlive_it(catalog, database):
    slow = Overtaken(database.engine, database.unawaited)
    catalog = Catalog(slow, SecretBox.from_setting(KEY), config_ttl_seconds=60, secret_ttl_seconds=60)

    def change():
        slow.meanwhile = lambda: None
        rotate(database)
        catalog.observe(_revision(database))

    slow.meanwhile = change
    assert seen(catalog)[1] == "Bearer hunter2"
    assert seen(catalog)[1] == "Bearer rotated"


def test_configs_and_secrets_have_a_time_to_live_each(catalog, database, clock):
    seen(catalog)
    change_behind_its_back(database, "https://two.example", "rotated")
    clock.now = 59.9
    assert seen(catalog) == ("https://one.example/7", "Bearer hunter2")
    clock.now = 60
    assert seen(catalog) == ("https://two.example/7", "Bearer hunter2")
    clock.now = 300
    assert seen(catalog) == ("https://two.example/7", "Bearer rotated")


def test_an_endpoint_version_is_cached_for_ever(catalog, database, clock):
    seen(catalog)
    database.fetch(text("DELETE FROM endpoint_versions WHERE endpoint = 'e'"))
    clock.now = 1e9
    database.transact(revision.bump)
    catalog.observe(_revision(database))
    assert seen(catalog)[0] == "https://one.example/7"


def add_variant(database, **fields):
    rows.add_endpoint(database, "other", **fields)
    return {"endpoint": "other"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda _: {"version": 9}, "version 9"),
        (lambda _: {"endpoint": "nope"}, "nope"),
        (lambda _: {"input_": {}}, "input.id"),
        (lambda _: {"input_": {"id": ".", "n": 1}}, "path segment"),
        (lambda d: add_variant(d, spec={"url": "{{config.b}}"}), "config.b"),
        (lambda d: add_variant(d, spec={"url": "https://h/{{secret.nope}}"}), "secret.nope"),
        (lambda d: add_variant(d, spec={"url": "https://h/{{"}), "balanced"),
    ],
)
def test_what_cannot_be_resolved_fails_for_good(catalog, database, asked, words):
    with pytest.raises(TemplateError, match=words) as caught:
        prepare(catalog, **asked(database))
    assert "hunter2" not in caught.value.message


def test_a_config_that_is_gone_fails_for_good(catalog, database):
    # The API refuses to delete it; an operator with SQL does not ask.
    database.fetch(text("UPDATE endpoints SET config_ref = NULL"))
    database.fetch(text("DELETE FROM configs"))
    with pytest.raises(TemplateError, match="conf"):
        prepare(catalog)


@pytest.mark.parametrize(
    ("box", "words"), [(None, "not set"), (SecretBox.from_setting(generate_key()), "none of the keys")]
)
def test_a_secret_that_cannot_be_decrypted_is_no_fault_of_the_template(catalog, database, box, words, caplog):
    stranger = Catalog(database, box, config_ttl_seconds=1, secret_ttl_seconds=1)
    with pytest.raises(SecretUnreadableError, match=words) as caught:
        prepare(stranger)
    assert "token" in str(caught.value)
    with pytest.raises(SecretUnreadableError):
        prepare(stranger)
    (line,) = caplog.messages
    assert words in line, "the operator is told, once"
    assert "secrets status" in line, "and told what to do"


def test_an_endpoint_without_secrets_needs_no_key(database):
    rows.add_endpoint(database, "plain", spec={"url": "https://h/"})
    catalog = Catalog(database, None, config_ttl_seconds=1, secret_ttl_seconds=1)
    assert prepare(catalog, "plain").spec["url"] == "https://h/"


def test_a_database_that_is_away_is_not_the_attempts_fault():
    nowhere = db.connect("postgresql://u:p@127.0.0.1:1/x", pool_size=1, application_name="t")
    catalog = Catalog(nowhere, None, config_ttl_seconds=1, secret_ttl_seconds=1)
    with pytest.raises(UnavailableError):
        prepare(catalog)
    nowhere.close()


def test_a_target_follows_config_and_secrets_and_shows_no_secret(database, catalog, clock):
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
def test_a_secret_in_a_host_is_masked_however_hosts_are_spelt(database, catalog, value, url, target):
    """Names of other scripts are sent as `xn--…`, and all in lower case."""
    box = SecretBox.from_setting(KEY)
    SECRETS.replace(database, "token", box.encrypt(value), AuditedChange(SYSTEM))
    catalog.observe(_revision(database))
    rows.add_endpoint(database, "hidden", spec={"url": url})
    shown = prepare(catalog, "hidden").target
    assert shown.rpartition("~")[0] == target


def test_a_target_of_very_many_servers_has_a_name_that_fits_into_a_key(database, catalog):
    servers = ",".join(f"kafka-{number}.example:9092" for number in range(100, 300))
    for name, its in (("many", servers), ("more", f"{servers},zoo.example:9092")):
        spec = {"bootstrap_servers": its, "topic": "t", "value_template": 1}
        rows.add_endpoint(database, name, type_=EndpointType.KAFKA, spec=spec)
    many, more = prepare(catalog, "many").target, prepare(catalog, "more").target
    assert many[:150] == more[:150] == f"kafka:{servers}"[:150]
    assert many != more
    assert len(many) == len(more) < 200


def test_each_channel_is_a_target_of_its_own_whatever_its_secrets_are(database, catalog):
    """A service throttles an account: that is no reason to leave alone all who notify through the same service."""
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
    of_its_own = "json:h.example:80,mailto:mail.example:25"
    slack = dict.fromkeys(("one", "same", "room", "other"), "slack")
    assert servers == {**slack, "whole": f"slack:{MASK}", "own": of_its_own}

    SECRETS.replace(database, "token", box.encrypt("correct-horse"), AuditedChange(SYSTEM))
    catalog.observe(_revision(database))
    assert targets() == found, "of the names of secrets, and not of what they hold"
