"""Parameters of hand-written statements: found at the first use, as SQLAlchemy finds them in a text."""

import pytest
from sqlalchemy import TextClause, text

from app.kernel.sql import NamedStatement
from tests.statements import STATEMENTS


@pytest.mark.parametrize(("name", "clause"), STATEMENTS)
def test_statement_is_the_text_that_sqlalchemy_makes_of_it(name: str, clause: TextClause) -> None:
    made, plain = NamedStatement(name, clause.text), text(clause.text)
    assert "_bindparams" not in vars(made)
    assert (made.text, made.compile().params) == (plain.text, plain.compile().params)
    assert str(made.bindparams()) == str(plain)
