"""Scrubbing: every secret is masked in all spellings and cuts, and little else is masked."""

import base64
import json
import sys
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.catalog.scrub import MASK, MAX_CLEAN, Scrubber
from app.catalog.scrubbing.layers import layers_of
from tests.cases import each_case
from tests.unit.catalog.readings import leaks

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


@each_case("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_is_masked(spelling):
    scrubbed = Scrubber([SECRET]).text(f"<{spelling}>")
    assert MASK in scrubbed
    assert "rd" not in scrubbed.replace(MASK, "")


@each_case("encode", [base64.b64encode, base64.urlsafe_b64encode])
@each_case("before", ["", "u", "us", "user:", "user::", "\xff\xfe"])
@each_case("after", ["", "a", "ab", "abc"])
@each_case("secret", ["hunter2", "\xff\xfe\xfd\xfc\xfb", "1234"])
def test_base64_of_a_longer_text_is_masked(encode, before, after, secret):
    token = encode(f"{before}{secret}{after}".encode()).decode()
    scrubbed = Scrubber([secret]).text(f"Authorization: Basic {token}.")
    # Base64 characters that mix bits of the secret with bits of a neighbour are masked too.
    start, end = len(before.encode()), len((before + secret).encode())
    kept = token[: start * 8 // 6], token.rstrip("=")[-(-end * 8 // 6) :]
    masked = scrubbed.removeprefix("Authorization: Basic ").removesuffix(".").rstrip("=")
    assert masked == f"{kept[0]}{MASK}{kept[1]}"


@pytest.mark.parametrize("url", ["redis://bob:hunt%2Fer2@host:6379/0", "https://bob:hunt%2Fer2@host/x?y=bob"])
def test_password_of_a_url_is_also_masked_alone(url):
    basic = base64.b64encode(b"bob:hunt/er2").decode()
    for text in (url, "hunt/er2", "hunt%2Fer2", f"Basic {basic}", base64.b64encode(b"hunt/er2").decode()):
        scrubbed = Scrubber([url]).text(text)
        assert scrubbed.replace("Basic ", "") == MASK
    assert Scrubber([url]).text("bob at host") == "bob at host"


def test_token_in_the_user_of_a_url_is_also_masked_alone():
    assert Scrubber(["https://gh-token@host/x"]).text("user gh-token") == f"user {MASK}"
    assert Scrubber(["https://host/x@y:z@"]).text("host x y z") == "host x y z"


def test_secret_used_as_a_host_is_masked_in_lower_case():
    assert Scrubber(["Prod-DB.example"]).text("cannot resolve prod-db.example") == f"cannot resolve {MASK}"


def test_longest_secret_is_masked_first():
    assert Scrubber(["abc", "abcdef", "def"]).text("abcdef abc def") == f"{MASK} {MASK} {MASK}"


def test_mask_is_not_scrubbed_again():
    assert Scrubber(["secret", "x"]).text("x") == MASK


def test_text_without_secrets_stays_unchanged():
    text = "anything"
    assert Scrubber([]).text(text) is text
    assert Scrubber([""]).text(text) is text


def test_values_of_a_tree_are_scrubbed_and_its_keys_are_kept():
    tree = {"status_code": [1, None, True, 1.5, "a stat"], "stat": {"x": ("stat",)}}
    assert Scrubber(["stat"]).scrub(tree) == {"status_code": [1, None, True, 1.5, f"a {MASK}"], "stat": {"x": [MASK]}}


def test_very_short_secret_is_masked_only_as_a_whole_word():
    scrubber = Scrubber(["b", "abc"])
    assert scrubber.text('ab abc "abc" abcd b=B') == f'ab {MASK} "{MASK}" abcd {MASK}={MASK}'


def test_short_part_of_a_secret_is_masked_only_as_a_whole_word():
    scrubber = Scrubber(["https://host.example/api/v1/ab12/swordfish?k=Zz98"])
    assert (
        scrubber.text("Zz98 swordfish ab12; ab123 sword swordfishes")
        == f"{MASK} {MASK} {MASK}; ab123 sword swordfishes"
    )
    assert scrubber.text("the API of this host") == "the API of this host"


TOKEN = "sk-live-4eC39HqLyjWDarjtT1zdp7dc"
CUT = {
    "URL": ("https://hooks.example/services/T0123ABCD/B0123ABCD/aB3dE6gH9jK2mN5pQ8", str),
    "base64": (TOKEN, lambda text: base64.b64encode(b"user:" + text.encode()).decode()),
    "hex": (TOKEN, lambda text: text.encode().hex()),
    "signs": ("!@#$%^&*()_+{}|:<>?-=[];',./~", str),
    "escaped": ("päss/wörd&für<alle>Zwecke-2030", lambda text: json.dumps(text)[1:-1]),
}


@each_case(("secret", "echo"), CUT.values(), ids=CUT)
@each_case("side", ["begin", "end"])
def test_part_of_a_long_secret_is_masked_wherever_it_was_cut(secret, echo, side):
    scrubber, text = Scrubber([secret]), echo(secret)
    for place in range(len(text)):
        cut = text[place:] if side == "begin" else text[:place]
        scrubbed = scrubber.text(f"({cut})").replace(MASK, "")
        assert leaks(scrubbed, secret, 15) == set(), cut


def test_secret_longer_than_the_margin_is_masked_at_the_limit():
    secret = base64.b64encode(bytes(range(256)) * 30).decode()
    clipped = Scrubber([secret]).text(f"{'x' * 16_000}{secret}"[:24_576], 16_384)
    assert clipped == "x" * 16_000 + MASK


def test_text_next_to_a_secret_is_kept():
    text = '\u00e9&lt;é "hunter2" é%20\\n'
    assert Scrubber(["hunter2"]).text(text) == text.replace("hunter2", MASK)
    answer = json.dumps({"token": TOKEN, "more": [1, "two"]})
    assert json.loads(Scrubber([TOKEN]).text(answer)) == {
        "token": MASK,
        "more": [1, "two"],
    }


@pytest.mark.parametrize("value", ["", " ", "\n\n\n\n\n"])
def test_blank_secret_masks_nothing(value):
    text = "a text \n\n\n\n\n with blanks"
    assert Scrubber([value]).text(text) == text


HOSTILE = [
    "\\",
    "&",
    "&a",
    "&#x41;",
    "%",
    "%25",
    "\\u0041",
    "\\ud83d",
    "a",
    "hunter2",
    "aHVudGVyMg==",
    "sk-live-4eC39HqLyj",
    "://",
]


@each_case("unit", HOSTILE)
@each_case("secret", ["hunter2", "aaaaaaaaaaaaaaaa", TOKEN, "https://a:b@c/d?e=f"])
def test_work_is_at_most_proportional_to_the_text(unit, secret):
    """The work is counted in calls, including calls of C functions; the patterns have no unbounded repetition."""
    scrubber = Scrubber([secret])

    def work(size):
        text = (unit * size)[:size]
        scrubber.text(text)  # fills the cache of escapes
        calls = 0

        def count(_frame, _event, _argument):
            nonlocal calls
            calls += 1

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            scrubber.text(text)
        finally:
            sys.setprofile(before)
        return calls

    assert work(131_072) <= 4.5 * work(32_768) + 1_000


def test_escapes_are_decoded_a_few_times_and_each_layer_is_shorter():
    text = b"%2525252525252541\\\\\\\\" * 1000
    sizes = [len(layer.raw) for layer in layers_of(text)]
    assert len(sizes) == 4
    assert sizes == sorted(sizes, reverse=True)


@each_case("limit", range(30))
def test_secret_across_the_limit_is_masked_whole(limit):
    text = "0123456789hunter2 and more hunter2"
    clipped = Scrubber(["hunter2"]).text(text, limit)
    assert not any(piece in clipped for piece in ("hunter2", "hunte", "hunt", "hun"))
    assert clipped.startswith(text[: min(limit, 10)])


def test_limit_counts_bytes_of_the_text_before_scrubbing():
    assert Scrubber([]).text("ééé", 5) == "éé"
    assert Scrubber(["s" * 50]).text("s" * 50 + "abcdef", 53) == MASK + "abc"
    assert Scrubber([]).scrub({"body": "x" * 100}, 10) == {"body": "x" * 10}


@given(
    st.text(min_size=4, max_size=20).filter(lambda secret: len(secret.strip()) >= 4),
    st.text(max_size=12),
    st.text(max_size=12),
)
@example("ab\\%41", "", "")
@example("%5Cu0041", "", "")
@example("%2541", "%", "")
@example("[sec", "", "")
def test_any_secret_is_masked_in_any_text(secret, before, after):
    scrubber = Scrubber([secret])
    for text in (
        before + secret + after,
        json.dumps([before, secret, after]),
        quote(secret, safe="", errors="replace"),
    ):
        parts = scrubber.text(text).split(MASK)
        assert len(parts) > 1, ascii((secret, before, after, text, parts))
        assert all(secret not in part for part in parts), ascii((secret, text, parts))


def test_cached_clean_text_is_clipped_again_and_other_texts_are_still_scrubbed() -> None:
    """The scrubber caches texts without secrets. A cached text is still clipped, and new texts are still searched."""
    scrubber = Scrubber([SECRET])
    for number in range(2 * MAX_CLEAN):
        for _ in range(2):
            assert scrubber.text(f"harmless {number}") == f"harmless {number}"
            assert scrubber.text(f"harmless {number}", 4) == "harm"
            assert scrubber.text(f"{number} {SECRET}") == f"{number} {MASK}"
