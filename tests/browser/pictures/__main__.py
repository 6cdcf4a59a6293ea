"""`make pictures`: write docs/pictures; takes some minutes."""

import tempfile
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from app.dev.stack.stack_client import Api
from app.dev.testing.movable_stack import running
from app.kernel import db
from tests.browser.pictures.camera import camera
from tests.browser.pictures.shop import ZONE, receivers
from tests.browser.pictures.story import LENGTH, Story

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"
_SETTINGS = {"TE_CONSOLE_COOKIES": "insecure"}  # the stack speaks plain HTTP


def main() -> None:
    """Run the story, and photograph its end."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as logs,
        receivers() as addresses,
        running(Path(logs), back=LENGTH, env=_SETTINGS) as stack,
    ):
        found = stack.access()
        with (
            closing(Api(found["url"], found["key"])) as api,
            closing(db.connect(found["database_url"], pool_size=2, application_name="te-pictures")) as database,
        ):
            story = Story(stack, database, api, addresses)
            story.run()
            tomorrow = datetime.now(ZoneInfo(ZONE)).date() + timedelta(days=1)  # today lacks the hours before the story
            (execution,) = api.items(f"/jobs/{story.flaky_job}/executions")
            with camera(found["url"], found["key"], FOLDER) as taken:
                taken.take("overview", "/console?window=6h", height=1000)
                taken.take("execution", f"/console/executions/{execution['execution_id']}", height=760)
                taken.take("dead-letters", "/console/dead-letters", height=640)
                taken.take("schedules", f"/console/schedules?date={tomorrow}&zone={ZONE}", height=760)


if __name__ == "__main__":
    main()
