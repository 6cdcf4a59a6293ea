"""Deletion of old rows: one statement per batch, which skips locked rows and returns their names."""

from collections.abc import Sequence

from app.kernel.sql import NamedStatement, statement

MAX_NAMED = 10  # locked rows
MAX_CHILDREN = 100_000  # of the rows of a batch


def deletion(
    name: str,
    table: str,
    key: Sequence[str],
    condition: str,
    *,
    time: str = "",
    pages: bool = False,
    shown: Sequence[str] = (),
) -> NamedStatement:
    """Register a statement that deletes up to `:limit` rows which meet a condition and are not locked.

    A wait for one row would keep all other rows. The statement returns one row: the number `deleted`, and the names of
    `locked` rows if fewer than `:limit` rows were left. `ChoreContext.delete` repeats it and logs the names, with the
    columns `shown` of the key. The condition qualifies no columns of the table.

    `time` is a column before the key, or of the key, with which the index of a batch begins; empty for the key's index.
    A batch then starts at `:since`, and the row has the time that the batch has `reached`: the index still contains the
    entries that earlier batches have deleted. With `pages`, for a condition without an index and a key of at least two
    texts, a batch starts behind the key `:since`, which begins as an empty text for each column.
    """
    columns = ", ".join(key)
    order = ", ".join([time, *(column for column in key if column != time)]) if time else columns
    since = f" AND {time} >= CAST(:since AS TIMESTAMPTZ)" if time else ""
    reached = f",\n               (SELECT max({time}) FROM page) AS reached" if time else ""  # noqa: S608 - as below
    row = f"({columns})" if len(key) > 1 else columns
    if pages:
        mark = ", ".join(f"(CAST(:since AS TEXT[]))[{number}]" for number in range(1, len(key) + 1))
        last = ", ".join(f"{column} DESC" for column in key)
        since = f" AND {row} > ({mark})"
        reached = f",\n               (SELECT ARRAY[{columns}] FROM page ORDER BY {last} LIMIT 1) AS reached"  # noqa: S608
    return statement(
        name,
        f"""
        WITH page AS MATERIALIZED (
          SELECT {order} FROM {table} WHERE {condition}{since} ORDER BY {order} LIMIT :limit FOR UPDATE SKIP LOCKED),
        gone AS (
          DELETE FROM {table} WHERE {row} IN (SELECT {columns} FROM page) AND {condition} RETURNING {key[0]})
        SELECT (SELECT count(*) FROM gone) AS deleted,
               ARRAY(SELECT {named(table, shown or key)} FROM {table}
                      WHERE {condition} AND (SELECT count(*) FROM page) < CAST(:limit AS BIGINT)
                        AND {row} NOT IN (SELECT {columns} FROM page)
                      ORDER BY {order} LIMIT {MAX_NAMED}) AS locked{reached}
        """,  # noqa: S608 - constants of the callers
    )


def unlocked_children(child: str, child_key: Sequence[str], key: str, page: str) -> str:
    """Return the CTE `free_<child>`: unlocked rows of a child table whose parents are in `page`."""
    columns = ", ".join(child_key)
    return f"""free_{child} AS MATERIALIZED (
          SELECT {columns} FROM {child} WHERE {key} IN (SELECT {key} FROM {page})
           ORDER BY {columns} LIMIT {MAX_CHILDREN} FOR UPDATE SKIP LOCKED)"""  # noqa: S608 - constants of the callers


def has_locked_child(child: str, child_key: Sequence[str], key: str, parent: str) -> str:
    """Return the condition that a row of `parent` has a child which is not in `free_<child>`."""
    row = ", ".join(f"c.{column}" for column in child_key)
    return f"""EXISTS (SELECT 1 FROM {child} AS c WHERE c.{key} = {parent}.{key}
                         AND ({row}) NOT IN (SELECT {", ".join(child_key)} FROM free_{child}))"""  # noqa: S608 - as above


def named(table: str, key: Sequence[str]) -> str:
    """Return the SQL expression of the name of a row in the log."""
    texts = ", ".join(f"CAST({column} AS TEXT)" for column in key)  # CockroachDB concatenates nothing else
    return f"'row ' || concat_ws(' ', {texts}) || ' of {table}'"
