"""Secrets at rest: rotation, and errors that help without telling."""

import pytest

from app.catalog.crypto import SecretBox, UndecryptableError, generate_key
from app.config import SettingError


def test_a_secret_comes_back():
    box = SecretBox.from_setting(generate_key())
    token = box.encrypt("pässword\n")
    assert "pässword".encode() not in token
    assert box.decrypt(token) == "pässword\n"
    assert box.decrypt(memoryview(token)) == "pässword\n"  # what psycopg2 returns for BYTEA


def test_the_first_key_encrypts_and_the_old_ones_still_decrypt():
    old, new = generate_key(), generate_key()
    before = SecretBox.from_setting(old).encrypt("x")
    rotated = SecretBox.from_setting(f" {new} , {old} ")
    assert rotated.decrypt(before) == "x"
    assert SecretBox.from_setting(new).decrypt(rotated.encrypt("x")) == "x"


@pytest.mark.parametrize("make", [lambda token: token[:-3], lambda _: b"", lambda _: b"not a token", lambda t: t[::-1]])
def test_what_no_key_decrypts_is_an_error_of_its_own(make):
    token = SecretBox.from_setting(generate_key()).encrypt("x")
    box = SecretBox.from_setting(generate_key())
    with pytest.raises(UndecryptableError, match="TE_SECRET_ENCRYPTION_KEY"):
        box.decrypt(make(token))


@pytest.mark.parametrize("text", ["", "  ", ",", " , "])
def test_a_missing_key_says_how_to_make_one(text):
    with pytest.raises(SettingError, match=r"not set.*generate-key"):
        SecretBox.from_setting(text)


@pytest.mark.parametrize("bad", ["short", "ä" * 32, "x" * 43, "ZGVhZGJlZWY=", "!" * 44])
def test_a_malformed_key_is_named_by_number_and_not_repeated(bad):
    with pytest.raises(SettingError, match=r"key number 2.*generate-key") as caught:
        SecretBox.from_setting(f"{generate_key()},{bad}")
    assert bad not in str(caught.value)
    assert caught.value.__cause__ is None
