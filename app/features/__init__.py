"""Features: the table of contents of the product above its kernel.

CONTRIBUTING.md, *Removing a feature*, lists the steps of a removal; docs/how-to/extend.md adds a feature of another
package.
"""

from app.feature import Feature
from app.features.actors import Actors
from app.features.breakers import Breakers
from app.features.bulk_jobs import BulkJobs
from app.features.callbacks import Callbacks
from app.features.catalog_files import CatalogFiles
from app.features.control import Control
from app.features.dead_letters import DeadLetters
from app.features.doctor import Doctor
from app.features.events import Events
from app.features.expiry import Expiry
from app.features.limits import Limits
from app.features.notifications import Notifications
from app.features.queues import Queues
from app.features.results import Results
from app.features.rollups import Rollups
from app.features.search import Search
from app.features.simulate import Simulate
from app.features.workflows import Workflows

FEATURES: list[Feature] = [
    Doctor(),
    Queues(),
    Breakers(),
    Actors(),
    Limits(),
    Expiry(),
    DeadLetters(),
    BulkJobs(),
    Callbacks(),
    Workflows(),
    Notifications(),
    Events(),
    Results(),
    Control(),
    Rollups(),
    Simulate(),
    Search(),
    CatalogFiles(),
]
