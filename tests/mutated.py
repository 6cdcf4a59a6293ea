"""Mutations of valid inputs, for fuzzers of parsers."""

from collections.abc import Sequence
from typing import AnyStr

from hypothesis import strategies as st


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[AnyStr], odd: st.SearchStrategy[AnyStr], *, repeat: int) -> AnyStr:
    """Generate a seed with parts that are replaced, dropped, reversed or repeated, up to `repeat` times."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 4))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 20)))
        part = data[begin:end]
        new = draw(
            odd
            | st.just(part[::-1])
            | st.integers(0, 300).map(lambda times, part=part: part * times)
            | st.just(part * repeat)
        )
        data = data[:begin] + new + data[end:]
    return data
