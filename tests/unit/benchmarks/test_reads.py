"""Reads of the benchmarks: each filter of a list has values to try."""

from benchmarks.reads import BY_KEY, example_values
from tests.integration.http.document import document

# Set for each path: benchmarks.reads.reads.
SET_BY_PATH = {"job_id", "after"}


def test_each_filter_of_a_list_has_values() -> None:
    parameters = [
        (path, each["name"])
        for path, operations in document()["paths"].items()
        if "get" in operations and "{" not in path
        for each in operations["get"].get("parameters", ())
        if each["in"] == "query" and not each["schema"].get("enum")
    ]
    known = {*example_values(), *BY_KEY, *SET_BY_PATH}
    assert [f"{path}: {name}" for path, name in parameters if name not in known] == []
