"""`flask workflows`: list, show, draw, cancel and retry workflows."""

from functools import partial
from typing import Any

import click

from app.cli.commands import ServiceGroup, actor, confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, print_result, show_fields, show_line, show_table
from app.cli.options import LABELS, TEXT, EnumChoice, created_options, gather, show_list
from app.cli.shell_completion import MAX_OFFERED, Found, offered
from app.features.workflows import control
from app.features.workflows.api import node_shape, shape
from app.features.workflows.control_api import retry_shape
from app.features.workflows.retry_schemas import WorkflowRetrySchema
from app.features.workflows.rules.retry_plan import RetryRequest
from app.features.workflows.schemas import WorkflowGraphSchema, WorkflowNodeSchema, WorkflowSchema
from app.features.workflows.steps import retrying
from app.features.workflows.stored.node_list import drawing_of, page_of_nodes
from app.features.workflows.stored.workflow_list import WorkflowFilter, get_workflow, page_of_workflows
from app.features.workflows.workflow_explanation import explain_workflow
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.formats import numbered
from app.queue.executions.execution_cancellation import IfRunning
from schema.states import NodeState, WorkflowStatus

group = ServiceGroup("workflows", help="List, show, draw, cancel and retry workflows.")


def _offered_workflows(database: Database, _start: str) -> Found:
    found = page_of_workflows(database, WorkflowFilter(), PageRequest(MAX_OFFERED)).items
    return [(each.workflow_id, f"{each.status} {each.name}") for each in found]


OF_WORKFLOWS = offered(_offered_workflows)


@group.command("list")
@click.option("--status", type=EnumChoice(WorkflowStatus), help="only workflows in this state")
@click.option("--name", type=TEXT, help="only workflows with this name")
@click.option("--labels", type=LABELS, help="only workflows with all of these labels: team=billing,env=prod")
@created_options
@json_option
def list_(limit: int, as_json: bool, **filters: Any) -> None:
    """List workflows, newest first."""
    with ready_database() as database:
        found, is_more = gather(partial(page_of_workflows, database, WorkflowFilter(**filters)), limit)
    items = [WorkflowSchema().dump(shape(each)) for each in found]
    header = ("WORKFLOW", "STATUS", "NAME", "NODES", "OPEN", "FAILED", "CREATED", "ENDED")
    rows = [
        (
            *(each.workflow_id, each.status, each.name, each.nodes, each.open_nodes, each.failed),
            *(each.created_at, each.ended_at),
        )
        for each in found
    ]
    show_list(items, header, rows, is_more=is_more, as_json=as_json, right=["NODES", "OPEN", "FAILED"])


@group.command("show")
@click.argument("workflow_id", **OF_WORKFLOWS)
@click.option("--state", type=EnumChoice(NodeState), help="only nodes in this state")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="number of nodes")
@json_option
def show(workflow_id: str, state: NodeState | None, limit: int, as_json: bool) -> None:
    """Show a workflow, its explanation and its nodes. Exits with 3 if there is no such workflow."""
    with ready_database() as database:
        workflow = get_workflow(database, workflow_id)
        explanation = explain_workflow(database, workflow)
        nodes, is_more = gather(partial(page_of_nodes, database, workflow_id, state=state), limit)
    shown = WorkflowSchema().dump(shape(workflow))
    if as_json:
        items = [WorkflowNodeSchema().dump(node_shape(node)) for node in nodes]
        return print_json({"workflow": shown, "explanation": explanation, "nodes": items, "more": is_more})
    show_fields(shown | {"labels": shown["labels"] or None})
    show_line("")
    show_line(explanation)
    show_line("")
    rows = [
        (
            each.name,
            each.state,
            each.endpoint,
            each.items,
            each.execution_id,
            each.started_at,
            each.ended_at,
            each.reason,
        )
        for each in nodes
    ]
    header = ("NODE", "STATE", "ENDPOINT", "ITEMS", "EXECUTION", "STARTED", "ENDED", "REASON")
    show_table(header, rows, right=["ITEMS"])
    if is_more:
        click.echo("there are more: raise --limit, or add --state", err=True)
    return None


@group.command("graph")
@click.argument("workflow_id", **OF_WORKFLOWS)
@click.option("--dot", "as_dot", is_flag=True, help="print DOT for Graphviz instead of Mermaid")
@json_option
def graph(workflow_id: str, as_dot: bool, as_json: bool) -> None:
    """Print the graph of a workflow for Mermaid or Graphviz. Exits with 3 if there is no such workflow."""
    with ready_database() as database:
        get_workflow(database, workflow_id)
        drawing = drawing_of(database, workflow_id)
    if as_json:
        return print_json(WorkflowGraphSchema().dump(drawing))
    click.echo(drawing.dot() if as_dot else drawing.mermaid(), nl=False)
    return None


@group.command("cancel")
@click.argument("workflow_id", **OF_WORKFLOWS)
@click.option(
    "--if-running", type=EnumChoice(IfRunning), help="request: no further attempts; abort: also abort running attempts"
)
@yes_option
@json_option
def cancel(workflow_id: str, if_running: IfRunning | None, yes: bool, as_json: bool) -> None:
    """Cancel a workflow. Exits with 3 if there is no such workflow, with 4 if it has ended."""
    with ready_database() as database:
        workflow = get_workflow(database, workflow_id)
        nodes = numbered(workflow.open_nodes, "open node")
        confirm(f"Cancel the workflow {workflow_id} ({workflow.name!r}, {nodes})?", yes=yes)
        control.cancel(database, workflow_id, if_running=if_running, actor=actor().name)
        workflow = get_workflow(database, workflow_id)
    line = f"{workflow_id} is {workflow.status}: {numbered(workflow.running, 'execution', 'are running')}"
    print_result(WorkflowSchema().dump(shape(workflow)), line, as_json=as_json)


@group.command("retry")
@click.argument("workflow_id", **OF_WORKFLOWS)
@click.option("--from", "names", multiple=True, type=TEXT, help="node that runs again, with all nodes behind it")
@click.option("--failed", is_flag=True, help="all failed and cancelled nodes run again")
@click.option("--dry-run", is_flag=True, help="name the nodes that would run again; change nothing")
@yes_option
@json_option
def retry(workflow_id: str, names: tuple[str, ...], *, failed: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Run nodes of an ended or paused workflow again. Exits with 3 if there is no such workflow, with 4 if it runs."""
    if bool(names) is failed:
        raise click.UsageError("give either --from or --failed")
    wanted = RetryRequest(names, failed)
    with ready_database() as database:
        plan = retrying.preview(database, workflow_id, wanted)
        if not dry_run:
            confirm(f"Run {numbered(len(plan.again), 'node')} of the workflow {workflow_id} again?", yes=yes)
            plan = retrying.retry(database, workflow_id, wanted, actor=actor().name)
    shown = WorkflowRetrySchema().dump(retry_shape(workflow_id, plan, dry_run=dry_run))
    words = "would run again (dry run)" if dry_run else "run again"
    again, kept = numbered(len(plan.again), "node", words), numbered(len(plan.kept), "node", "keep earlier results")
    line = f"{again}: {', '.join(shown['again'])}; {kept}"
    print_result(shown, line, as_json=as_json)
