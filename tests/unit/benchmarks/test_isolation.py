"""Load on many endpoints, and the reported ratios of an isolation run."""

from benchmarks.contenders.flow_contenders import Stream
from benchmarks.measures.flow import isolation
from benchmarks.measures.flow.isolation import Load, LoadResult
from benchmarks.report.results import Section


def test_load_has_its_rate_and_endpoints_take_turns() -> None:
    streams = Load(rate=10, seconds=2).streams(["a", "b", "c", "d"], first=100.0)
    assert streams[1] == Stream("b", 5, 100.1, 0.4)
    instants = sorted(instant for stream in streams for instant in stream.instants())
    assert all(abs(instant - 100 - number / 10) < 1e-6 for number, instant in enumerate(instants))


def test_ratios_compare_with_the_run_alone() -> None:
    section = Section("Isolation")
    alone = LoadResult(1.0, {"a": 1.0, "b": 0.5}, [1.0, 10.0])
    isolation.add_results(section, "ours", alone, LoadResult(0.8, {"a": 0.9, "b": 0.1}, [2.0, 30.0]))
    shown = {figure: values["ours"] for figure, values in section.values.items()}
    assert shown[isolation.KEPT] == [0.8]
    assert shown[isolation.WORST] == [0.2]
    assert shown[isolation.TIMES] == [3.0]
