"""No secret value survives scrubbing, however it is spelled or cut."""

import base64
import json
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.catalog.scrub import MASK, Scrubber

SECRET = 'p@ss/wörd+"1"\n<&>~?'


SPELLINGS = {
    "plain": SECRET,
    "path": quote(SECRET),
    "form": quote_plus(SECRET),
    "component": quote(SECRET, safe=""),
    "component in lower case": quote(SECRET, safe="").lower(),
    "query": urlencode({"q": SECRET}),
    "JSON": json.dumps(SECRET),
    "JSON with other letters": json.dumps(SECRET, ensure_ascii=False),
    "JSON with escaped slashes": json.dumps(SECRET).replace("/", "\\/"),
    "HTML": SECRET.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;"),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 of URLs": base64.urlsafe_b64encode(SECRET.encode()).decode(),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_is_masked(spelling):
    scrubbed = Scrubber([SECRET]).text(f"<{spelling}>")
    assert MASK in scrubbed
    assert "rd" not in scrubbed.replace(MASK, "")


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "user:", "user::", "\xff\xfe"])
@pytest.mark.parametrize("after", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("secret", ["hunter2", "\xff\xfe\xfd\xfc\xfb", "1234"])
def test_base64_of_a_longer_text_is_masked(encode, before, after, secret):
    token = encode(f"{before}{secret}{after}".encode()).decode()
    scrubbed = Scrubber([secret]).text(f"Authorization: Basic {token}.")
    # Characters that mix bits of the secret and of a neighbour are masked too.
    start, end = len(before.encode()), len((before + secret).encode())
    kept = token[: start * 8 // 6], token.rstrip("=")[-(-end * 8 // 6) :]
    masked = scrubbed.removeprefix("Authorization: Basic ").removesuffix(".").rstrip("=")
    assert masked == f"{kept[0]}{MASK}{kept[1]}"


@pytest.mark.parametrize("url", ["redis://bob:hunt%2Fer2@host:6379/0", "https://bob:hunt%2Fer2@host/x?y=bob"])
def test_the_password_of_a_url_is_masked_alone_too(url):
    basic = base64.b64encode(b"bob:hunt/er2").decode()
    for text in (url, "hunt/er2", "hunt%2Fer2", f"Basic {basic}", base64.b64encode(b"hunt/er2").decode()):
        scrubbed = Scrubber([url]).text(text)
        assert scrubbed.replace("Basic ", "") == MASK
    assert Scrubber([url]).text("bob at host") == "bob at host"


def test_a_token_that_is_the_user_of_a_url_is_masked_alone_too():
    assert Scrubber(["https://gh-token@host/x"]).text("user gh-token") == f"user {MASK}"
    assert Scrubber(["https://host/x@y:z@"]).text("host x y z") == "host x y z"


def test_a_secret_used_as_a_host_is_masked_in_small_letters():
    assert Scrubber(["Prod-DB.example"]).text("cannot resolve prod-db.example") == f"cannot resolve {MASK}"


def test_the_longest_secret_wins():
    assert Scrubber(["abc", "abcdef", "def"]).text("abcdef abc def") == f"{MASK} {MASK} {MASK}"


def test_the_mask_is_not_scrubbed_again():
    assert Scrubber(["secret", "x"]).text("x") == MASK


def test_without_secrets_nothing_changes():
    text = "anything"
    assert Scrubber([]).text(text) is text
    assert Scrubber([""]).text(text) is text


def test_a_tree_is_scrubbed_in_keys_and_values():
    tree = {"k": [1, None, True, 1.5, "a hunter2"], "hunter2": {"x": ("hunter2",)}}
    assert Scrubber(["hunter2"]).scrub(tree) == {"k": [1, None, True, 1.5, f"a {MASK}"], MASK: {"x": [MASK]}}


@pytest.mark.parametrize("limit", range(30))
def test_a_secret_across_the_limit_is_masked_whole(limit):
    text = "0123456789hunter2 and more hunter2"
    clipped = Scrubber(["hunter2"]).clip(text, limit)
    assert not any(piece in clipped for piece in ("hunter2", "hunte", "hunt", "hun"))
    assert clipped.startswith(text[: min(limit, 10)])


def test_the_limit_counts_bytes_of_the_text_before_scrubbing():
    assert Scrubber([]).clip("ééé", 5) == "éé"
    assert Scrubber(["s" * 50]).clip("s" * 50 + "abcdef", 53) == MASK + "abc"
    assert Scrubber([]).scrub({"body": "x" * 100}, 10) == {"body": "x" * 10}


@given(st.text(min_size=1, max_size=12), st.text(max_size=12), st.text(max_size=12))
@example("%", "", "")
@example("[", "", "")
def test_any_secret_is_masked_in_any_text(secret, before, after):
    scrubber = Scrubber([secret])
    for text in (
        before + secret + after,
        json.dumps([before, secret, after]),
        quote(secret, safe="", errors="replace"),
    ):
        parts = scrubber.text(text).split(MASK)
        assert len(parts) > 1
        assert all(secret not in part for part in parts)
