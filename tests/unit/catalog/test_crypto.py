"""Encrypted secrets: key rotation, and helpful errors that reveal no secret."""

import pytest

from app.catalog.crypto import SecretBox, UndecryptableError, generate_key, key_id
from app.kernel.config import SettingError


def test_encrypted_secret_is_decrypted():
    box = SecretBox.from_setting(generate_key())
    token = box.encrypt("pässword\n")
    assert "pässword".encode() not in token
    assert box.decrypt(token) == "pässword\n"
    assert box.decrypt(memoryview(token)) == "pässword\n"  # psycopg2 returns BYTEA as a memoryview


def test_first_key_encrypts_and_old_keys_still_decrypt():
    old, new = generate_key(), generate_key()
    before = SecretBox.from_setting(old).encrypt("x")
    rotated = SecretBox.from_setting(f" {new} , {old} ")
    assert rotated.decrypt(before) == "x"
    assert SecretBox.from_setting(new).decrypt(rotated.encrypt("x")) == "x"


def test_key_of_each_secret_is_known():
    old, new, other = generate_key(), generate_key(), generate_key()
    box = SecretBox.from_setting(f"{new},{old}")
    assert box.key_ids == (key_id(new), key_id(old))
    before = SecretBox.from_setting(old).encrypt("x")
    assert box.key_of(before) == key_id(old)
    assert box.key_of(box.rotate(before)) == key_id(new)
    assert SecretBox.from_setting(new).decrypt(box.rotate(before)) == "x"
    assert box.key_of(SecretBox.from_setting(other).encrypt("x")) is None


def test_id_of_a_key_contains_no_part_of_it():
    key = generate_key()
    assert len(key_id(key)) == 8
    assert key_id(key) not in key


TOKEN = SecretBox.from_setting(generate_key()).encrypt("x")


@pytest.mark.parametrize(
    "token",
    [TOKEN, TOKEN[:-3], TOKEN[::-1], b"", b"not a token"],
    ids=["another key's", "cut", "reversed", "empty", "text"],
)
def test_undecryptable_token_raises_its_own_error(token):
    box = SecretBox.from_setting(generate_key())
    with pytest.raises(UndecryptableError, match="TE_SECRET_ENCRYPTION_KEY"):
        box.decrypt(token)


@pytest.mark.parametrize("text", ["", "  ", ",", " , "])
def test_error_for_a_missing_key_says_how_to_make_one(text):
    with pytest.raises(SettingError, match=r"not set.*generate-key"):
        SecretBox.from_setting(text)


@pytest.mark.parametrize("bad", ["short", "ä" * 32, "x" * 43, "ZGVhZGJlZWY=", "!" * 44])
def test_malformed_key_is_named_by_number_and_not_repeated(bad):
    with pytest.raises(SettingError, match=r"key number 2.*generate-key") as caught:
        SecretBox.from_setting(f"{generate_key()},{bad}")
    assert bad not in str(caught.value)
    assert caught.value.__cause__ is None
