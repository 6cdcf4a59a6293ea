"""Forecast of the wait of an execution in line, by the present speed of its endpoint; pure."""

from app.console.views import words


def wait_in_line(ahead: int, attempts: int, seconds: float, *, shards: int) -> str:
    """Write when `ahead` executions of a partition are delivered, such as `about 40.0 s at the present 20.0/s`.

    `attempts` of the endpoint ended in the last `seconds`; its partitions share them.
    """
    if not ahead:
        return ""
    if not attempts:
        return f"its endpoint delivered nothing in the last {words.duration(seconds * 1000)} that were counted"
    speed = attempts / seconds / shards
    shown = f"{words.number(speed)}/s" if speed >= 1 else f"{words.number(speed * 60)}/min"
    share = f", the share of one of {words.plural(shards, 'shard')}" if shards > 1 else ""
    return f"about {words.duration(ahead / speed * 1000)} at the present {shown}{share}"
