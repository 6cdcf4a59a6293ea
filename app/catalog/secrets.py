"""Secrets: encrypted values that templates refer to as {{secret.*}}; the next claim of any worker sees a change.

The ciphertext is stored; no function here returns a value.
"""

from app.catalog import dependents
from app.catalog.named_table import NamedTable
from app.kernel.audit import ResourceType
from app.kernel.errors import SecretNotFoundError
from schema import tables

SECRETS = NamedTable(
    table=tables.secrets,
    value=tables.secrets.c.encrypted_value,
    noun="secret",
    resource_type=ResourceType.SECRET,
    not_found=SecretNotFoundError,
    dependents=dependents.OF_SECRET,
    is_hidden=True,
)
