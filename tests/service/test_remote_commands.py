"""Every command through the service: it works as with a kubeconfig, or the error says what to do instead."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from gpuctl.cli.main import cli
from properties.scale import part_of
from support.cluster_tools import POOL, inference, outcome, training
from support.command import Command
from support.remote import Remote, settled, timeless


class Same(NamedTuple):
    """Output (except ages) and exit code equal those with a kubeconfig.

    `{file}`, `{node}` and `{namespace}` are placeholders for existing objects.
    """

    calls: tuple[str, ...]


class Rejected(NamedTuple):
    """The command is rejected, and the error says what to do."""

    call: str
    says: str
    code: int = 1


class CoveredBy(NamedTuple):
    """The command works; separate tests cover it."""

    tests: tuple[str, ...]


class NeedsNoService(NamedTuple):
    """The command needs no service; with --server the error says so."""

    call: str


_USAGE = ("test_remote_usage.py::test_usage_commands_print_the_same_as_with_the_database",)
_KUBECONFIG = "name a cluster with --context or --kubeconfig"
_FORMATS = ("", "-o json", "-o yaml", "-o name", "-o wide", "--no-headers")
_TEXTS = ("", "-o json", "-o yaml")


def _with_formats(command: str, formats: tuple[str, ...] = _FORMATS) -> tuple[str, ...]:
    return tuple(f"{command} {form}".strip() for form in formats)


TABLE: dict[str, Same | Rejected | CoveredBy | NeedsNoService] = {
    "get jobs": Same(
        (
            *_with_formats("get jobs"),
            "get jobs --jobs",
            "get jobs --pods",
            "get jobs b --kind inference",
            f"get jobs --pool {POOL} --kind training --status running",
            "get jobs a -l app=a",
            "get jobs --status failed",
            "get jobs nope",
            "get jobs nope -o json",
            "get jobs --sweep s",
        )
    ),
    "get pods": Same((*_with_formats("get pods"), "get pods a --status running")),
    "get pools": Same((*_with_formats("get pools"), f"get pools {POOL}", "get pools nope")),
    "get nodes": Same(
        (
            *_with_formats("get nodes"),
            *_with_formats("get nodes --label runwhere.ai/pool"),
            *_with_formats("get nodes --gpu-detail {node}", ("", "-o json", "-o name")),
            "get nodes --key runwhere.ai/pool",
            "get nodes --gpu-type runwhere.ai/pool",
            "get nodes --gpu-type runwhere.ai/gpu-type",
            "get nodes --gpu-type nope",
            "get nodes --label b@d",
            "get nodes --label runwhere.ai/pool=nope",
            f"get nodes -l runwhere.ai/pool={POOL} -o wide",
            f"get nodes --pool {POOL} --status active -o json",
            "get nodes --pool nope",
            "get nodes {node} nope",
            "get nodes nope",
        )
    ),
    "get labels": Same(
        (
            *_with_formats("get labels {node}"),
            *_with_formats("get labels"),
            *_with_formats("get labels {node} --key runwhere.ai/pool"),
            "get labels --all",
            "get labels --key runwhere.ai/pool",
            "get labels --key nope -o json",
            "get labels {node} --key runwhere.ai/pol",
            "get labels {node} --key runwhere.ai/pol -o json",
            "get labels {node} --key b@d -o json",
            "get labels nope",
            "get labels {node} ..",
        )
    ),
    "get gpu-types": Same((*_with_formats("get gpu-types"), "get gpu-types --all", "get gpu-types nope")),
    "get quotas": Same((*_with_formats("get quotas"), *_with_formats("get quotas {namespace}"), "get quotas nope")),
    "get queues": Same((*_with_formats("get queues"), "get queues nope")),
    "get namespaces": Same((*_with_formats("get namespaces {namespace}"), "get namespaces {namespace} nope")),
    "describe job": Same(
        (
            *_with_formats("describe job a", _TEXTS),
            *_with_formats("describe job b", _TEXTS),
            "describe job nope",
            "describe job nope -o json",
            "describe job training/a",
        )
    ),
    "describe pool": Same((*_with_formats(f"describe pool {POOL}", _TEXTS), "describe pool nope")),
    "describe node": Same((*_with_formats("describe node {node}", _TEXTS), "describe node nope", "describe node ..")),
    "describe quota": Same(
        (
            *_with_formats("describe quota {namespace}", _TEXTS),
            *_with_formats("describe quota few", _TEXTS),
            "describe quota nope",
            "describe quota nope -o json",
        )
    ),
    "describe queue": Same(("describe queue nope", "describe queue nope -o json")),
    "describe namespace": Same(
        (
            *_with_formats("describe namespace {namespace}", _TEXTS),
            "describe namespace nope",
            "describe namespace No-Name",
        )
    ),
    "why": Same(
        (
            *_with_formats("why a", _TEXTS),
            *_with_formats("why stuck", _TEXTS),
            "why b",
            "why nope",
            "why nope -o json",
            "why",
        )
    ),
    "history": Same(
        (
            *_with_formats("history a", _TEXTS),
            "history a --revision 1",
            "history a --revision 7",
            "history a --diff 1",
            "history no",
        )
    ),
    "logs": CoveredBy(
        (
            "test_followed_logs_equal_those_with_a_kubeconfig",
            "test_logs_follow_replacement_pods",
            "test_logs_end_when_the_output_pipe_closes",
        )
    ),
    "wait": CoveredBy(("test_wait_equals_that_with_a_kubeconfig", "test_wait_ends_at_its_timeout_or_by_interrupt")),
    "fit": Same(
        (
            "fit -f {file}",
            "fit -f {file} -o json",
            "fit -f {large}",
            "fit -f {large} -o json",
            "fit -f {bad}",
            "fit -f {large} --suggest",
            "fit -f {large} --suggest -o json",
            "fit -n {namespace}",
            "fit -n {namespace} -o json",
        )
    ),
    "diff": Same(
        ("diff -f {file}", "diff -f {file} -o json", "diff -f {large}", "diff -f {bad}", "diff -f {directory}")
    ),
    "apply": CoveredBy(
        (
            "test_apply_equals_that_with_a_kubeconfig",
            "test_apply_of_a_directory_equals_that_with_a_kubeconfig",
            "test_apply_wait_equals_that_with_a_kubeconfig",
            "test_unsupported_apply_options_are_rejected",
        )
    ),
    "create": CoveredBy(("test_create_equals_that_with_a_kubeconfig",)),
    "delete": CoveredBy(
        (
            "test_delete_of_documents_equals_that_with_a_kubeconfig",
            "test_delete_of_pools_and_quotas_equals_that_with_a_kubeconfig",
            "test_namespaces_are_not_deleted_by_the_service",
        )
    ),
    "recover": CoveredBy(("test_recover_equals_that_with_a_kubeconfig",)),
    "pause": CoveredBy(("test_pause_resume_and_rerun_equal_those_with_a_kubeconfig",)),
    "resume": CoveredBy(("test_pause_resume_and_rerun_equal_those_with_a_kubeconfig",)),
    "scale": Same(("scale a --nodes 2", "scale a --nodes 0", "scale nope --nodes 2")),
    "rollback": CoveredBy(("test_rollback_equals_that_with_a_kubeconfig",)),
    "rerun": CoveredBy(("test_pause_resume_and_rerun_equal_those_with_a_kubeconfig",)),
    "run": CoveredBy(("test_run_equals_that_with_a_kubeconfig",)),
    "label node": CoveredBy(("test_label_node_equals_that_with_a_kubeconfig",)),
    "add node": CoveredBy(("test_add_and_remove_node_change_pools",)),
    "remove node": CoveredBy(("test_add_and_remove_node_change_pools",)),
    "snapshot": Rejected("snapshot", _KUBECONFIG, 2),
    "drift": Rejected("drift {file}", _KUBECONFIG, 2),
    "exec": Rejected("exec a -- ls", _KUBECONFIG, 2),
    "port-forward": Rejected("port-forward a 80", _KUBECONFIG, 2),
    "open": Rejected("open a", _KUBECONFIG, 2),
    "impact": Rejected("impact --from HEAD {file} --server {url}", "leave --server out", 2),
    "init": NeedsNoService("init training"),
    "new": NeedsNoService("new training"),
    "explain": NeedsNoService("explain training"),
    "schema": NeedsNoService("schema training"),
    "validate": NeedsNoService("validate {file}"),
    "fmt": NeedsNoService("fmt {file}"),
    "import": NeedsNoService("import {file}"),
    "set": NeedsNoService("set {file} resources.gpu=2"),
    "render": NeedsNoService("render {file}"),
    "build": NeedsNoService("build {file}"),
    "serve": NeedsNoService("serve"),
    "usage top": CoveredBy(_USAGE),
    "usage cluster": CoveredBy(_USAGE),
    "usage namespaces": CoveredBy(_USAGE),
    "usage labels": CoveredBy(_USAGE),
    "usage workloads": CoveredBy(_USAGE),
    "usage nodes": CoveredBy(_USAGE),
    "usage models": CoveredBy(_USAGE),
    "usage waste": CoveredBy(_USAGE),
    "usage report": CoveredBy(_USAGE),
    "usage idle": NeedsNoService("usage idle"),
    "usage export": NeedsNoService("usage export copy.db"),
    "usage import": NeedsNoService("usage import {file}"),
    "usage sql": NeedsNoService("usage sql 1"),
    "usage collect": NeedsNoService("usage collect"),
    "usage rollup": NeedsNoService("usage rollup --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z"),
    "login": NeedsNoService("login {url}"),
    "logout": NeedsNoService("logout"),
    "completion": NeedsNoService("completion bash"),
    "version": NeedsNoService("version"),
}
"""Every command -> its behaviour with the service. `query` is another name of `get`."""


def _commands(group: click.Group, context: click.Context, *names: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, context, *names, name)
        else:
            yield " ".join((*names, name)), command


def test_table_has_every_command() -> None:
    there = {name.replace("query ", "get ") for name, _ in _commands(cli, click.Context(cli))}
    assert there == set(TABLE)
    for row in TABLE.values():
        for name in row.tests if isinstance(row, CoveredBy) else ():
            file, _, test = name.rpartition("::")
            assert test in globals() or f"def {test}(" in Path(__file__).with_name(file).read_text(), name


def test_help_lists_the_service_only_where_it_can_be_used() -> None:
    """The other commands accept ``--server``, so that their error can say why it does not apply."""
    for name, command in _commands(cli, click.Context(cli)):
        row = TABLE[name.replace("query ", "get ")]
        listed = any("--server" in option.opts and not getattr(option, "hidden", False) for option in command.params)
        assert listed == (not isinstance(row, Rejected | NeedsNoService)), name


def test_help_says_which_commands_work_on_several_clusters() -> None:
    context = click.Context(cli)
    repeatable = {name for name, command in _commands(cli, context) if "repeatable for documents" in _help_of(command)}
    assert repeatable == {"apply", "create", "diff", "delete"}


def _help_of(command: click.Command) -> str:
    """Return the help of a command on one line."""
    # With the root command's names: click keeps the help option of the first context of a command.
    return " ".join(command.get_help(click.Context(command, **cli.context_settings)).split())


class World(NamedTuple):
    """A command line that uses the service, and the values of the table's placeholders."""

    remote: Remote
    values: dict[str, str]

    def arguments(self, call: str) -> list[str]:
        """Return the arguments of a call with its placeholders filled in."""
        return [word.format(**self.values) for word in call.split()]


@pytest.fixture
def world(remote: Remote) -> World:
    """Two running jobs and a pending one, and two quotas, for an admin without a kubeconfig."""
    remote.login()
    place = remote.place
    stuck = training("stuck")
    stuck["resources"]["gpu"] = 999
    place.apply(training("a"), inference("b"), stuck, flags=("--yes",), code=None)
    place.running("a", "b")
    for name, labels in (("few", {"runwhere.ai/quota": "few"}), ("foreign", {})):
        hard = {"pods": "90", "requests.cpu": "90500m", "requests.memory": "900Gi"}
        metadata = {"name": name, "labels": labels}
        place.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    remote.served.until("/jobs", lambda value: value["total"] == 3, namespace=place.namespace)
    directory = place.directory / "documents"
    directory.mkdir()
    (directory / "one.yaml").write_text((place.directory / "jobs.yaml").read_text())
    (directory / "other.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: theirs\n")
    large = training("large")
    large["resources"]["gpu"] = 65
    bad = place.directory / "bad.yaml"
    bad.write_text("kind: training\nversion: v0.1\njob:\n  name: a\nenvironment:\n  image: i\nresources:\n  gpus: x\n")
    values = {
        "file": place.file(training("new"), name="new.yaml"),
        "large": place.file(large, name="large.yaml"),
        "bad": str(bad),
        "directory": str(directory),
        "node": f"{POOL}-0",
        "namespace": place.namespace,
        "url": remote.served.url,
    }
    return World(remote, values)


def _takes_namespace(call: str) -> bool:
    context = click.Context(cli)
    command: click.Command | None = cli
    for word in call.split():
        if isinstance(command, click.Group):
            command = command.get_command(context, word)
    assert command is not None
    return any("-n" in parameter.opts for parameter in command.params)


def test_reading_commands_print_the_same_as_with_a_kubeconfig(world: World) -> None:
    for call in part_of((call for row in TABLE.values() if isinstance(row, Same) for call in row.calls), 3):
        here = ["-n", world.remote.place.namespace] if _takes_namespace(call) else []
        world.remote.same_anywhere(*world.arguments(call), *here, code=None)


def test_rejected_commands_say_what_to_do(world: World) -> None:
    for row in TABLE.values():
        if isinstance(row, Rejected):
            said = world.remote.typed(*world.arguments(row.call), code=row.code)
            assert row.says in said.err, said.err
        elif isinstance(row, NeedsNoService):
            # For a group of commands the error names the subcommand.
            name = " ".join(row.call.split()[: 2 if row.call.startswith("usage ") else 1])
            said = world.remote.typed("--server", world.remote.served.url, *world.arguments(row.call), code=2)
            assert said.err.endswith(f"`gpuctl {name}` does not use a service: leave --server out.\n"), said.err
    for more in (("diff", "-f", world.values["file"], "--against", "git:HEAD"), ("fit", "--snapshot", "x", "y.yaml")):
        said = world.remote.typed(*more, "--server", world.remote.served.url, code=2)
        assert "leave --server out" in said.err


def test_followed_logs_equal_those_with_a_kubeconfig(remote: Remote) -> None:
    """Each line once, from the last run to replacement pods, as with a kubeconfig."""
    remote.login()
    place = remote.place
    place.apply(training("a"))
    settled(remote, "a")
    [pod] = place.pods("a")
    place.plane.write_log(place.namespace, pod, "old 1\nold 2\n")
    more = {"--tail=1": (), "": (), "-o json": (), "--grep=[135]": (), "--timestamps --prefix": ()}
    calls = [["logs", "a", "-f", *options.split(), "-n", place.namespace] for options in more]
    pairs = [(Command(*call), remote.start(*call)) for call in calls]
    for near, far in pairs:
        for command in (near, far):
            command.until(b"old 2" if "--grep=[135]" not in command.arguments else b"old 1")
    # The bytes of a line are printed unchanged, also if they are not UTF-8.
    place.plane.write_log(place.namespace, pod, b"new 3\nnew 4 caf\xe9\nnew 5\n")
    for near, far in pairs:
        near.until(b"new 5")
        far.until(b"new 5")
    place.plane.annotate(place.namespace, pod, outcome="complete")
    for near, far in pairs:
        assert (near.end(), near.out, near.err) == (far.end(), far.out, far.err)
        assert far.err == b"note: training/a has finished\n"
    assert pairs[1][1].out == b"old 1\nold 2\nnew 3\nnew 4 caf\xe9\nnew 5\n"
    # The log of a finished job is printed completely, and the command ends.
    for option, note in (("--tail=all", b""), ("-f", b"note: training/a has finished\n")):
        call = ("logs", "a", option, "-n", place.namespace)
        near, far = Command(*call), remote.start(*call)
        assert (near.end(), near.out, near.err) == (far.end(), far.out, far.err) == (0, pairs[1][1].out, note)
    remote.same("logs", "nope", "-f", code=1)
    remote.same("logs", "a", "-f", "-c", "nope", code=1)


def test_logs_follow_replacement_pods(remote: Remote) -> None:
    remote.login()
    place = remote.place
    place.apply(inference("b"))
    settled(remote, "b")
    [old] = place.pods("b")
    place.plane.write_log(place.namespace, old, "old\n")
    command = remote.start("logs", "b", "-f", "-n", place.namespace)
    other = remote.start("logs", old, "-f", "-n", place.namespace)
    command.until(b"old\n")
    other.until(b"old\n")
    place.kubectl("delete", "pod", old)
    place.until(lambda: set(place.pods("b")) - {old}, "the replacement pod")
    [new] = set(place.pods("b")) - {old}
    place.plane.write_log(place.namespace, new, "new 1\nnew 2\n")
    command.until(b"new 2\n")
    command.until(f"note: {new} is new\n".encode())
    assert other.end() == 0
    assert other.out == b"old\n"
    # The end of a deleted pod is reported, or that the pod is already gone.
    assert re.fullmatch(f"note: pod {old} (is gone|failed: exit code 143)\n", other.err.decode())
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130
    assert command.out.decode().endswith(f"\n{new[-5:]} | new 2\n")


@pytest.mark.slow
def test_logs_end_when_the_output_pipe_closes(remote: Remote) -> None:
    remote.login()
    remote.place.apply(training("a"))
    settled(remote, "a")
    [pod] = remote.place.pods("a")
    remote.place.plane.write_log(remote.place.namespace, pod, "only line\n")
    script = f'{{ "$0" -m gpuctl logs a -f -n {remote.place.namespace}; echo "exit $?" >&2; }} | head -n 1'
    result = remote.shell(script)
    assert (result.stdout, result.stderr) == ("only line\n", "exit 141\n")


def test_wait_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    here = ("-n", place.namespace)
    place.apply(training("good"), training("bad"))
    settled(remote, "good", "bad")
    for more in ((), ("-o", "json")):
        remote.same("wait", "good", "training/bad", "--for=running", *more)
        remote.same("wait", "good", "nope", "--for=running", *more, code=1)
        remote.same("wait", "nope", "--for=deleted", *more)
    pairs = [
        (Command("wait", *words, *here), remote.start("wait", *words, *here))
        for words in (("good", "bad", "--for=done"), ("good", "--for=deleted"))
    ]
    for near, far in pairs:
        near.until_connected(place.plane.port)
        far.until_connected(remote.port)
    for name, how in (("good", "complete"), ("bad", "fail")):
        for pod in place.pods(name):
            place.plane.annotate(place.namespace, pod, outcome=how)
    near, far = pairs[0]
    assert (near.end(), near.out, near.err) == (far.end(), far.out, far.err)
    assert b"training/good is done\n" in far.out
    assert b"error: training/bad failed: " in far.err
    place.gpuctl("delete", "job", "good", "--yes")
    near, far = pairs[1]
    assert (near.end(), near.out, near.err) == (far.end(), far.out, far.err) == (0, b"training/good is deleted\n", b"")


def test_wait_ends_at_its_timeout_or_by_interrupt(remote: Remote) -> None:
    remote.login()
    place = remote.place
    place.apply(training("a"))
    settled(remote, "a")
    said = remote.same("wait", "a", "--for=done", "--timeout=4s", code=1)
    assert said.err.startswith("error: training/a is not done after 4 s: ")
    command = remote.start("wait", "a", "--for=done", "-n", place.namespace)
    command.until_connected(remote.port)
    command.process.send_signal(signal.SIGINT)
    assert (command.end(), command.out, command.err) == (130, b"", b"")
    remote.login("anna")
    assert "anna may not" in remote.typed("wait", "a", "--for=done", "-n", place.namespace, code=3).err


def _sorted_lines(text: str) -> list[str]:
    """Return the lines of an output sorted: concurrent steps finish in any order."""
    return sorted(timeless(text).splitlines())


def _same_but_job_name(near: str, far: str) -> bool:
    """Return True if the outputs are equal except for the job's name and times."""
    return timeless(re.sub(r"\bfar\b", "near", far)) == timeless(near)


def test_apply_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    here = ("-n", place.namespace)
    for changes in ({}, {"resources": {"gpu": 2}}):
        near = place.gpuctl("apply", "-f", place.file(training("near", **changes), name="near.yaml"), "--yes")
        far = remote.typed("apply", "-f", place.file(training("far", **changes), name="far.yaml"), "--yes", *here)
        assert _same_but_job_name(near.out, far.out), far.out
        assert _same_but_job_name(near.err, far.err), far.err
        # The plan depends on the job's state.
        place.running("near", "far")


@pytest.mark.slow
def test_apply_of_a_directory_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    """Files, subdirectories, several documents in one file; objects of other kinds are skipped with the same note."""
    remote.login()
    place = remote.place
    for name in ("near", "far"):
        below = place.directory / name / "below"
        below.mkdir(parents=True)
        place.file(training(f"{name}-1"), inference(f"{name}-2"), name=f"{name}/jobs.yaml")
        place.file(training(f"{name}-3"), name=f"{name}/below/job.yaml")
        (below / "other.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: theirs\n")
        (below / "link.yaml").symlink_to(place.file(training("elsewhere"), name="elsewhere.yaml"))
    near = place.gpuctl("apply", "-f", str(place.directory / "near"))
    far = remote.typed("apply", "-f", str(place.directory / "far"), "-n", place.namespace)
    assert _sorted_lines(far.out.replace("far", "near")) == _sorted_lines(near.out)
    assert timeless(far.err.replace("far", "near")) == timeless(near.err)
    assert "is a link to a file outside" in far.err
    assert far.out.count("created") == near.out.count("created") > 3


def test_apply_wait_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    here = ("-n", place.namespace)
    near = place.gpuctl("apply", "-f", place.file(training("near"), name="near.yaml"), "--wait")
    far = remote.typed("apply", "-f", place.file(training("far"), name="far.yaml"), "--wait", *here)
    assert (_same_but_job_name(near.out, far.out), far.err) == (True, near.err)
    place.until(lambda: place.get("Job", "far")["status"].get("ready") == 1, "the Job's status to count the ready pod")
    for name in ("near", "far"):
        large = training(f"{name}-large")
        large["resources"]["gpu"] = 65
        place.file(large, name=f"{name}-large.yaml")
    options = ("--wait", "--timeout=3s", "--yes")
    near = place.gpuctl("apply", "-f", str(place.directory / "near-large.yaml"), *options, code=1)
    far = remote.typed("apply", "-f", str(place.directory / "far-large.yaml"), *options, *here, code=1)
    assert "did not start within 3 s" in far.err
    assert _same_but_job_name(near.err, far.err), (near.err, far.err)


def test_unsupported_apply_options_are_rejected(remote: Remote) -> None:
    remote.login()
    path = remote.place.file(training("x"))
    for more in (("--set", "team"), ("--set", "team", "--prune"), ("--prune",), ("--allow-empty",)):
        said = remote.typed("apply", "-f", path, *more, code=2)
        assert "does not work through the service\n" in said.err
        assert "apply without --set, and delete what is not to stay with `gpuctl delete -f FILE`" in said.err
    assert "ask their owners to release them" in remote.typed("apply", "-f", path, "--adopt", code=2).err
    assert "leave it out" in remote.typed("apply", "-f", path, "--platform", "p.yaml", code=2).err
    assert "`gpuctl rollback JOB`" in remote.typed("apply", "-f", path, "--wait", "--rollback", code=2).err
    assert "--dry-run=server" in remote.typed("apply", "-f", path, "--dry-run=client", code=2).err
    assert not remote.place.exists("Job", "x")


def test_create_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    near = place.gpuctl("create", "-f", place.file(training("near"), name="near.yaml"))
    far = remote.typed("create", "-f", place.file(training("far"), name="far.yaml"), "-n", place.namespace)
    assert (_same_but_job_name(near.out, far.out), far.err) == (True, near.err)
    for form in ("text", "json"):
        remote.same("create", "-f", str(place.directory / "far.yaml"), "-o", form, code=1)


def test_delete_of_documents_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    here = ("-n", place.namespace)
    files = [place.file(training(name), inference(f"{name}-b"), name=f"{name}.yaml") for name in ("near", "far")]
    for path in files:
        place.gpuctl("apply", "-f", path)
    settled(remote, "near", "near-b", "far", "far-b")
    near = place.gpuctl("delete", "-f", files[0], "--yes")
    far = remote.typed("delete", "-f", files[1], "--yes", *here)
    assert _sorted_lines(far.out.replace("far", "near")) == _sorted_lines(near.out)
    assert far.err == near.err
    assert not place.exists("Job", "far")
    remote.same("delete", "-f", files[1])
    remote.same("delete", "-f", files[1], "-o", "json")
    # A read-only user deletes nothing.
    place.gpuctl("apply", "-f", files[0])
    remote.login("vera")
    assert remote.typed("delete", "-f", files[0], "--yes", *here, code=3).err.startswith("error: vera may not")
    assert place.exists("Job", "near")


def _pool(name: str) -> dict[str, object]:
    return {"kind": "pool", "version": "v0.1", "pool": {"name": name}, "nodes": {}}


def _quota(name: str, user: str) -> dict[str, object]:
    return {"kind": "quota", "version": "v0.1", "quota": {"name": name}, "users": {user: {"gpu": 4}}}


def test_delete_of_pools_and_quotas_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    user = place.namespace
    made = {}
    for name in ("near", "far"):
        pool = f"{place.namespace}-{name}"[-40:].strip("-")
        made[name] = pool
        place.anywhere("apply", "-f", place.file(_pool(pool)))
    near = place.anywhere("delete", "pool", made["near"], "--yes")
    far = remote.typed("delete", "pool", made["far"], "--yes")
    assert (far.out.replace(made["far"], made["near"]), far.err) == (near.out, near.err)
    outputs = []
    for typed in (place.anywhere, remote.typed):
        place.anywhere("apply", "-f", place.file(_quota("team", user)))
        outputs.append(typed("delete", "quota", user, "--yes"))
    assert (_sorted_lines(outputs[1].out), outputs[1].err) == (_sorted_lines(outputs[0].out), outputs[0].err)
    for kind in ("pool", "quota"):
        near = place.anywhere("delete", kind, "nope", code=1)
        far = remote.typed("delete", kind, "nope", code=1)
        assert far.err == near.err
    remote.login("anna")
    assert remote.typed("delete", "pool", POOL, "--yes", code=3).err.startswith("error: anna may not delete pools")
    assert remote.typed("delete", "quota", "team-a", "--yes", code=3).err.startswith(
        "error: anna may not delete quotas"
    )


def test_namespaces_are_not_deleted_by_the_service(remote: Remote) -> None:
    remote.login()
    for call in (("delete", "namespace", "x"), ("delete", "quota", "x", "--namespace-too")):
        said = remote.typed(*call, code=2)
        assert "the service does not delete namespaces" in said.err
        assert _KUBECONFIG in said.err


def test_recover_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    near = remote.place.gpuctl("recover")
    far = remote.typed("recover", "-n", remote.place.namespace)
    assert (far.out, far.err) == (near.out, near.err) == ("", "Nothing to recover.\n")
    remote.same("recover", "-o", "json")
    remote.same("recover", "--dry-run")
    remote.login("anna")
    assert "this needs the role admin" in remote.typed("recover", "-n", "team-a", code=3).err


def test_pause_resume_and_rerun_equal_those_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    place.apply(training("near"), training("far"), training("near-done", job=outcome("complete")))
    place.apply(training("far-done", job=outcome("complete")))
    settled_all = {"near", "far", "near-done", "far-done"}
    remote.served.until(
        "/jobs",
        lambda value: (
            {item["name"] for item in value["items"]} == settled_all
            and {item["status"] for item in value["items"] if "done" in item["name"]} == {"succeeded"}
        ),
        namespace=place.namespace,
    )
    place.running("near", "far")
    for command in ("pause", "resume"):
        near = place.gpuctl(command, "near")
        far = remote.typed(command, "far", "-n", place.namespace)
        assert (_same_but_job_name(near.out, far.out), far.err) == (True, near.err)
    near = place.gpuctl("rerun", "near-done", "--yes")
    far = remote.typed("rerun", "far-done", "--yes", "-n", place.namespace)
    assert (_same_but_job_name(near.out, far.out), far.err) == (True, near.err)
    for refused in ("rerun nope", "rerun near", "pause nope", "resume nope", "delete job nope"):
        remote.same(*refused.split(), code=1)
    remote.typed("delete", "job", "far", "--yes", "-n", place.namespace)
    assert not place.exists("Job", "far")


def test_run_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    place.apply(training("near", schedule="0 2 29 2 *"), training("far", schedule="0 2 29 2 *"))
    remote.served.until("/jobs", lambda value: value["total"] == 2, namespace=place.namespace)
    near = place.gpuctl("run", "near")
    far = remote.typed("run", "far", "-n", place.namespace)
    assert near.out.startswith("created   job.batch/near-r")
    assert (far.out.startswith("created   job.batch/far-r"), far.err) == (True, near.err.replace("near", "far"))
    remote.same("run", "nope", code=1)


@pytest.mark.slow
def test_rollback_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    """The same plan, confirmation and result; the service checks that the user may submit the document."""
    remote.login()
    place = remote.place
    here = ("-n", place.namespace)
    for name in ("near", "far"):
        place.apply(inference(name))
        place.apply(inference(name, environment={"image": "registry.example.com/app:v2"}), flags=("--yes",))
    settled(remote, "near", "far")
    for more in (("--dry-run",), (), ("--yes", "--wait")):
        code = 2 if not more else 0
        near = place.gpuctl("rollback", "near", *more, code=code)
        far = remote.typed("rollback", "far", *more, *here, code=code)
        assert _same_but_job_name(near.out, far.out), (near.out, far.out)
        told = [line for line in near.err.splitlines() if not line.startswith(("@@", "---", "+", "-", " "))]
        told = [line for line in told if line != "  = nothing was changed"]
        assert _same_but_job_name("\n".join(told), "\n".join(far.err.splitlines()[: len(told)])), (near.err, far.err)
    image = place.get("Deployment", "far")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "registry.example.com/inference:v1"
    remote.same("rollback", "nope", code=1)
    remote.same("rollback", "far", "--to", "99", code=1)
    assert "--adopt does not work through the service" in remote.typed("rollback", "far", "--adopt", *here, code=2).err
    remote.login("vera")
    assert remote.typed("rollback", "far", "--yes", *here, code=3).err.startswith("error: vera may not")


def test_label_node_equals_that_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    near, far = f"{POOL}-2", f"{POOL}-3"

    def both(*words: str, code: int = 0) -> None:
        ours = place.anywhere("label", "node", *[word.replace("NODE", near) for word in words], code=code)
        theirs = remote.typed("label", "node", *[word.replace("NODE", far) for word in words], code=code)
        assert theirs.out.replace(far, near) == ours.out.replace(far, near)
        assert theirs.err.replace(far, near) == ours.err.replace(far, near)

    # An earlier run may have left these labels.
    place.plane.kubectl("label", "node", near, far, "example.com/kept-", "example.com/new-")
    both("NODE", "example.com/kept=1")
    both("NODE", "example.com/kept=1", "-o", "json")
    both("NODE", "example.com/kept=2", code=1)
    both("NODE", "example.com/kept=2", "--overwrite")
    both("NODE", "nope", "example.com/kept=3", "--overwrite", code=1)
    both("NODE", "example.com/kept-", "example.com/new=1")
    both("NODE", "example.com/new", "--delete")
    both("NODE", "example.com/new", "--delete", code=1)
    both("NODE", "b@d=1", code=2)
    remote.login("anna")
    for label in ("a=b", "example.com/x-"):
        assert "may not update labels" in remote.typed("label", "node", far, label, code=3).err


@pytest.fixture
def unpooled_nodes(remote: Remote) -> Iterator[dict[str, str]]:
    """Two nodes without a pool, deleted after the test."""
    nodes = {name: f"{name}-{remote.place.namespace}"[:50] for name in ("near", "far")}
    for node in nodes.values():
        remote.place.plane.add_node(node, gpus=8)
    yield nodes
    remote.place.plane.kubectl("delete", "node", *nodes.values())


def test_add_and_remove_node_change_pools(remote: Remote, unpooled_nodes: dict[str, str]) -> None:
    remote.login()
    place, nodes = remote.place, unpooled_nodes
    place.anywhere("apply", "-f", place.file(_pool("joined")))

    def both(*words: str, code: int = 0) -> None:
        ours = place.anywhere(
            *[nodes.get(word, word) if word != "NODE" else nodes["near"] for word in words], code=code
        )
        theirs = remote.typed(*[word if word != "NODE" else nodes["far"] for word in words], code=code)
        assert theirs.out.replace(nodes["far"], nodes["near"]) == ours.out.replace(nodes["far"], nodes["near"])
        assert theirs.err.replace(nodes["far"], nodes["near"]) == ours.err.replace(nodes["far"], nodes["near"])

    both("add", "node", "NODE", "--pool", "joined")
    both("add", "node", "NODE", "--pool", "joined", "-o", "json")
    both("add", "node", "NODE", "--pool", "nope", code=1)
    both("add", "node", "nope", "--pool", "joined", code=1)
    both("add", "node", "NODE", "--pool", POOL, code=1)
    both("remove", "node", "NODE", "--pool", "joined")
    both("remove", "node", "NODE", "--pool", "joined", code=1)
    remote.login("anna")
    assert "may not update pools" in remote.typed("add", "node", nodes["far"], "--pool", "joined", code=3).err
    # An admin limited to a pool can neither add nodes of other pools nor learn that they exist.
    remote.login("paula")
    assert "may not update pools" in remote.typed("add", "node", nodes["far"], "--pool", "joined", code=3).err
    said = remote.typed("add", "node", nodes["far"], "--pool", POOL, code=1).err
    assert said == remote.typed("add", "node", "far-away", "--pool", POOL, code=1).err.replace("far-away", nodes["far"])
    remote.login()
    remote.typed("delete", "pool", "joined", "--yes")
