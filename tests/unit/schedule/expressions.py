"""Random cron expressions."""

from hypothesis import strategies as st


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """Draw a cron field with values of this range."""
    value = st.integers(low, high)
    step = st.integers(1, 9).map(lambda n: f"/{n}")
    span = st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}")
    item = st.one_of(value.map(str), span, st.builds("{}{}".format, span, step))
    star = st.one_of(st.just("*"), step.map(lambda s: f"*{s}"))
    return st.one_of(star, item, st.lists(item, min_size=2, max_size=3).map(",".join))
