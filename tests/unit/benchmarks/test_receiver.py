"""Counts and times that the receiver of the benchmarks records."""

from benchmarks.receiver import Book


def test_arrivals_are_kept_by_key_and_by_path() -> None:
    book = Book()
    for path, key in (("/a", "k1"), ("/b", "k2"), ("/a", "k1")):
        book.note(path, key)
    assert book.times.keys() == {"k1", "k2"}
    assert book.repeats == 1
    assert [len(book.report(f"/_arrivals{path}")) for path in ("/a", "/b", "/c")] == [2, 1, 0]  # type: ignore[arg-type]


def test_maximum_of_open_requests_is_kept_by_path() -> None:
    book = Book()
    for path, by in (("/a", 1), ("/a", 1), ("/a", -1), ("/b", 1), ("/a", 1), ("/a", -1), ("/a", -1)):
        book.hold(path, by)
    assert book.report("/_open") == {"/a": {"now": 0, "most": 2}, "/b": {"now": 1, "most": 1}}
    assert (book.held, book.most_held) == (1, 3)
    book.report("/_clear")
    assert book.report("/_open") == {}
