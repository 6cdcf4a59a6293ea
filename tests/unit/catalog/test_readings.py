"""Search of a text for parts of a secret, on which the tests of canaries rely."""

import string

from tests.unit.catalog.readings import leaks

SECRET = string.ascii_lowercase


def test_part_of_a_secret_is_found_from_each_of_its_characters() -> None:
    for most in range(len(SECRET)):
        for start in range(len(SECRET) - most):
            part = SECRET[start : start + most + 1]
            assert leaks(f"<{part.upper()}>", SECRET, most) == {part}
            assert leaks(f"<{part[:-1]}>", SECRET, most) == set()
