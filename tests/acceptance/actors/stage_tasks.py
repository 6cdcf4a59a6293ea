"""A module of a user whose process is killed once at a stage of a message: in a hook of middleware, named by it."""

import os
import signal
from pathlib import Path

import dramatiq
from task_executor_dramatiq import TaskExecutorBroker

EFFECTS = Path(os.environ["EFFECTS"])
STAGES = (
    "before_process_message",
    "run",
    "after_process_message",
    "before_ack",
    "after_ack",
)


def kill_once(stage):
    """Kill the process, unless the stage has killed one before."""
    mark = EFFECTS.with_name(f"killed {stage}")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Kills(dramatiq.Middleware):
    pass


def _hook(stage):
    def kill(self, broker, message, **outcome):
        if message.args == (stage,):
            kill_once(stage)

    return kill


for _stage in STAGES:
    if _stage != "run":
        setattr(Kills, _stage, _hook(_stage))

broker = TaskExecutorBroker(url=os.environ["BROKER_URL"])
broker.add_middleware(Kills())
dramatiq.set_broker(broker)


@dramatiq.actor
def pass_stage(stage):
    with EFFECTS.open("a") as effects:
        effects.write(f"{stage}\n")
    if stage == "run":
        kill_once(stage)


@dramatiq.actor
def follow(stage):
    with EFFECTS.open("a") as effects:
        effects.write(f"after {stage}\n")
