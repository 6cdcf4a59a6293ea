"""SQL that CockroachDB refuses or interprets differently from PostgreSQL."""

import re

# Syntax that CockroachDB does not support.
REFUSED = [
    r"\bSTRING\b", r"\bSERIAL\b", r"\bpg_notify\b", r"\bLISTEN\b", r"pg_advisory", r"\bMERGE\b", r"\bctid\b",
    r"\bxmax\b", r"make_interval", r"ON CONSTRAINT", r"\bSAVEPOINT\b", r"\bLOCK TABLE\b", r"\bUPSERT\b",
    r"TABLESAMPLE", r"jsonb_path_ops", r"old\.", r"percentile_cont", r"=>", r"\bFAMILY\b",
]  # fmt: skip

# Places where no column gives a parameter its type: in arithmetic, as a function's argument, as a value or a condition.
# CockroachDB then uses the type of the literal that the driver wrote, or refuses the statement.
_PARAMETER = r"(?<!:):[a-z_0-9]+\b"
UNTYPED = [
    rf"[-+*/%|]\s*{_PARAMETER}", rf"{_PARAMETER}\s*[-+*/%|]",
    rf"\b(?!CAST\b|VALUES\b)\w+\s*\(\s*{_PARAMETER}(?!\s*\))", rf"\b(?:ANY|ALL|unnest)\s*\(\s*{_PARAMETER}",
    rf"\b(?:WHEN|THEN|ELSE|AND|OR|NOT|WHERE|ON|IN \()\s*{_PARAMETER}",
]  # fmt: skip

# Functions that CockroachDB has with the types of our arguments, looked up in its list of functions. Look up a new one:
# https://www.cockroachlabs.com/docs/stable/functions-and-operators
FUNCTIONS = frozenset({
    "array_agg", "avg", "clock_timestamp", "coalesce", "concat_ws", "count", "current_setting", "exists", "extract",
    "floor", "gen_random_uuid", "greatest", "jsonb_agg", "jsonb_array_elements_text", "jsonb_build_array",
    "jsonb_build_object", "jsonb_typeof", "least", "left", "lower", "max", "md5", "min", "now", "nullif",
    "octet_length", "percentile_disc", "row_number", "split_part", "substr", "sum", "unnest", "version",
})  # fmt: skip
_SYNTAX = frozenset({
    "all", "and", "any", "array", "as", "by", "case", "cast", "check", "conflict", "distinct", "else", "filter", "from",
    "in", "index", "join", "key", "materialized", "not", "on", "or", "over", "select", "then", "union", "unique",
    "using", "values", "when", "where", "within", "group", "lateral",
})  # fmt: skip
# Names before a parenthesis that begins a list of columns: of a table, an alias, a CTE, an index.
_COLUMN_LIST = r"""(?ix)\b(?: INSERT\s+INTO \s+ [\w.]+ (?:\s+AS\s+\w+)? | (?:CREATE\s+TABLE | REFERENCES) [\w\s.]+?
                       | \bON\s+\w+ (?:\s+USING\s+\w+)? | AS\s+\w+ ) \s* \("""


def unlisted_functions(sql: str) -> set[str]:
    """Return the functions of a statement that `FUNCTIONS` lacks."""
    code = re.sub(r"--[^\n]*|'(?:[^']|'')*'", " ", sql)
    code = re.sub(_COLUMN_LIST, "; (", code)
    return {name.lower() for name in re.findall(r"\b([A-Za-z_]\w*)\s*\(", code)} - FUNCTIONS - _SYNTAX


def refused(sql: str) -> list[str]:
    """Return the patterns of `REFUSED` that occur in a statement."""
    return [pattern for pattern in REFUSED if re.search(pattern, sql, re.IGNORECASE)]


def untyped(sql: str) -> list[str]:
    """Return the places of a hand-written statement where a parameter has no type."""
    return [found.group(0) for pattern in UNTYPED for found in re.finditer(pattern, sql, re.IGNORECASE)]


def structural_breaches(sql: str) -> list[str]:
    """Return the structural rules that a statement breaks.

    A statement writes each table once, and claims rows in the order of an index. A list of keys is a parameter, because
    CockroachDB cannot limit a scan by the result of a subquery; the subquery may filter the rows of such a list.
    """
    broken = [f"{table} is written twice" for table in set(_written(sql)) if _written(sql).count(table) > 1]
    columns = re.findall(r"(\w+) = ANY\s*\(\s*ARRAY\s*\(\s*SELECT", sql)
    if any(f"WHERE {column} = ANY (CAST(:" not in sql for column in columns):
        broken.append("rows are looked up by keys that a subquery finds")
    for select in re.findall(r"SELECT(?:(?!SELECT).)*?SKIP LOCKED", sql, re.DOTALL):
        wanted = {"ORDER BY": select, "LIMIT": select, "MATERIALIZED": sql}
        broken += [f"a locking claim needs {word}" for word, where in wanted.items() if word not in where]
        broken += ["a locking claim joins"] if "JOIN" in select else []
    return broken


def _written(sql: str) -> list[str]:
    return re.findall(r"(?:INSERT INTO|UPDATE|DELETE FROM)\s+([a-z_]+)\b(?!\s*SKIP)", sql.replace("FOR UPDATE", ""))
