"""Schema definitions of a PostgreSQL database, for the comparison of two databases."""

from sqlalchemy import Engine, text

# All definitions of the schema in PostgreSQL's notation, regardless of the order of columns.
CATALOG = text(
    """
    SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default)
      FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    """
)


def definitions(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return [str(definition) for definition in connection.execute(CATALOG).scalars()]
