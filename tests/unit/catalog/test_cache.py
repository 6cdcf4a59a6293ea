"""The worker's cache stays small and keeps what is used."""

from app.catalog.cache import Cache


def test_the_least_recently_used_entry_makes_room():
    cache = Cache[str, int](2, 10, lambda: 0)
    cache.put("a", 1, 0)
    cache.put("b", 2, 0)
    assert cache.get("a", 0) == 1
    cache.put("c", 3, 0)
    assert [cache.get(key, 0) for key in "abc"] == [1, None, 3]
    cache.put("c", 4, 0)
    assert [cache.get(key, 0) for key in "ac"] == [1, 4]


def test_an_entry_of_an_earlier_revision_is_gone():
    cache = Cache[str, int](2, 10, lambda: 0)
    cache.put("a", 1, 5)
    assert cache.get("a", 5) == 1
    assert cache.get("a", 6) is None
    assert cache.get("a", 5) is None


def test_a_value_read_under_an_earlier_revision_is_not_kept():
    cache = Cache[str, int](2, 10, lambda: 0)
    assert cache.get("a", 6) is None
    cache.put("a", 1, 5)
    assert cache.get("a", 6) is None


def test_an_entry_ends_with_its_time_to_live():
    now = 0.0
    cache = Cache[str, int](2, 10, lambda: now)
    cache.put("a", 1, 0)
    now = 9.9
    assert cache.get("a", 0) == 1
    now = 10
    assert cache.get("a", 0) is None


def test_heavy_entries_make_room_sooner_and_the_heaviest_are_not_kept():
    cache = Cache[str, str](10, 10, lambda: 0, weight=len)
    for key, value in (("a", "xxxx"), ("b", "xxxx"), ("c", "xxxxx"), ("d", "x" * 11)):
        cache.put(key, value, 0)
    assert [cache.get(key, 0) for key in "abcd"] == [None, "xxxx", "xxxxx", None]
