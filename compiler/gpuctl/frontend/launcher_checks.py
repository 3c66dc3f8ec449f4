"""Checks of launchers and model servers against the GPUs and nodes of the document."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from gpuctl.frontend.command_advice import quote
from gpuctl.frontend.command_lines import (
    Program,
    Word,
    command_line,
    diagnostic_at,
    launcher_options,
    number,
    option,
    programs_of,
)
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.document import Document
from gpuctl.language.ip_addresses import is_loopback
from gpuctl.language.kinds import Job, nodes_of
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.training_document import TrainingDocument

DEEPSPEED = frozenset({"deepspeed", "deepspeed.launcher.runner"})
LLAMA_FACTORY = frozenset({"llamafactory-cli", "llama-factory-cli", "lmf"})
TORCHRUN = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_MPI = frozenset({"mpirun", "mpiexec"})
_ACCELERATE = frozenset({"accelerate", "accelerate-launch", "accelerate.commands.launch"})
_SERVERS = re.compile(r"vllm(\.|\Z)|sglang(\.|\Z)|text-generation-launcher|lmdeploy\Z|trtllm-serve|tritonserver")

# Options of the launchers that take no value (deepspeed/launcher/runner.py 0.19, torch/distributed/run.py 2.9,
# accelerate/commands/launch.py 1.11), with underscores.
DEEPSPEED_FLAGS = frozenset(
    {
        *("--module", "--no_python", "--no_local_rank", "--no_ssh", "--no_ssh_check", "--force_multi", "--save_pid"),
        *("--elastic_training", "--bind_cores_to_rank", "-q", "--quiet"),
    }
)
TORCHRUN_FLAGS = frozenset(
    {
        "--standalone",
        "-m",
        "--module",
        "--no_python",
        "--run_path",
        "--use_env",
        "--use_agent_store",
        "--virtual_local_rank",
    }
)
_ACCELERATE_FLAGS = frozenset(
    {
        *("-q", "--quiet", "--debug", "--multi_gpu", "--cpu", "--tpu", "--ipex", "--use_xpu", "--use_deepspeed"),
        *("--use_fsdp", "--use_megatron_lm", "--use_parallelism_config", "--same_network", "-m", "--module"),
        *("--no_python", "--standalone", "--dynamo_use_fullgraph", "--dynamo_use_dynamic", "--enable_cpu_affinity"),
    }
)
_TENSOR = ("--tensor-parallel-size", "--tensor_parallel_size", "-tp", "--tp-size", "--tp_size", "--tp", "--num-shard")
_PIPELINE = ("--pipeline-parallel-size", "--pipeline_parallel_size", "-pp", "--pp-size", "--pp_size", "--pp")
_DATA = ("--data-parallel-size", "--data_parallel_size", "-dp", "--dp-size", "--dp_size", "--dp")
_ADDRESSES = (
    *("--master_addr", "--master-addr", "--rdzv_endpoint", "--rdzv-endpoint", "--main_process_ip", "--main-process-ip"),
    *("--dist_url", "--dist-url", "--init_method", "--init-method", "--dist-init-addr", "--head-address"),
)
_OTHER_RANKS = ("--data-parallel-start-rank", "--data-parallel-rank", "--distributed-executor-backend")
_RANK_HINTS = {
    "vllm": Template(
        "add `--nnodes=$(NNODES) --node-rank=$(NODE_RANK) --master-addr=$(MASTER_ADDR)`, and `--headless` on every "
        "node but the first"
    ),
    "sglang": Template(
        "add `--nnodes=$(NNODES) --node-rank=$(NODE_RANK) --dist-init-addr=$(MASTER_ADDR):$(MASTER_PORT)`"
    ),
}
_RANKS = ("--node_rank", "--node-rank", "--machine_rank", "--machine-rank")


def check_launchers(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report launchers whose number of processes does not match the GPUs, or whose nodes do not find each other."""
    programs = programs_of(command_line(model))
    for program in programs:
        yield from _parallelism(document, model, program)
        yield from _processes(document, model, program)
        if program.name == "llama-factory-cli":
            message = say("LLaMA-Factory's program is called `llamafactory-cli`")
            hint = say("write `llamafactory-cli`, unless the image has it under this name")
            yield diagnostic_at(document, "GPU505", message, program.words[0], hint)
        if model.kind == "training" and model.resources.node_range is not None:
            yield from _elastic(document, model, program)
        elif nodes_of(model) > 1:
            yield from _several_nodes(document, nodes_of(model), model.resources.gpu, program)
        if model.kind == "inference" and nodes_of(model) > 1 and not any(other.name == "ray" for other in programs):
            yield from _alone(document, program)


def _elastic(document: Document, model: TrainingDocument, program: Program) -> Iterator[Diagnostic]:
    """Report what keeps torchrun from following the number of nodes of an elastic training."""
    name, nodes = program.name, model.resources.max_nodes
    if name in DEEPSPEED | LLAMA_FACTORY | _MPI or _is_accelerate(program):
        message = say("{head} starts a fixed number of nodes, and those of this training may change", head=program.head)
        hint = say(
            "start it with torchrun, which the PET_ variables make elastic, or write `resources.nodes: {nodes}`",
            nodes=nodes,
        )
        yield diagnostic_at(document, "GPU526", message, program.words[0], hint).as_error()
        return
    words = _launcher_words(program)
    yield from _rendezvous(document, words)
    given = option(words, "--nnodes") if name in TORCHRUN else None
    backend = option(words, "--rdzv_backend", "--rdzv-backend") if name in TORCHRUN else None
    for found, is_fixed in ((given, number), (backend, lambda text: text == "static" or None)):
        if found is not None and is_fixed(found[1]) is not None:
            message = say(
                "`{option}` makes the number of nodes fixed, and those of this training may change", option=found[1]
            )
            hint = say("remove the option: torchrun reads the PET_ variables that gpuctl sets")
            yield diagnostic_at(document, "GPU526", message, found[0], hint).as_error()


def _alone(document: Document, program: Program) -> Iterator[Diagnostic]:
    """Report a model server that each node of a replica would start by itself, because it gets no rank."""
    name = re.match(r"vllm|sglang", program.name)
    if name is None or option(program.words, *_RANKS, *_OTHER_RANKS) is not None:
        return
    message = say("every node would serve the whole model by itself: the command gives the server no rank")
    yield diagnostic_at(document, "GPU446", message, program.words[0], say(_RANK_HINTS[name[0]]))


def has_loopback_host(text: str) -> bool:
    """Return True if an address, with or without scheme and port, is on the loopback."""
    address = r"(?:[a-z]+://)?(?:\[([^\]]+)\]|(::1|[^:/]+))(?::\d+)?/?\Z"
    match = re.match(address, text.strip("'\"").lower())
    return match is not None and is_loopback(match[1] or match[2])


def _parallelism(document: Document, model: Job, program: Program) -> Iterator[Diagnostic]:
    """Report parallel sizes that do not match the GPUs: a server splits a model over tensor x pipeline x data GPUs."""
    is_server = _SERVERS.match(program.name) is not None
    if model.kind == "training" and not is_server:
        return  # The options of a training script have no fixed meaning.
    options = {"tensor": _TENSOR, "pipeline": _PIPELINE, "data": _DATA}
    if any(word.text == "--enable-dp-attention" for word in program.words):
        del options["data"]  # SGLang: data parallelism is inside the tensor parallel group.
    given = {name: found for name, names in options.items() if (found := option(program.words, *names)) is not None}
    if (local := option(program.words, "--data-parallel-size-local", "-dpl")) is not None:
        given["data"] = local
    sizes = {name: number(value) or 0 for name, (_, value) in given.items()}
    total = math.prod(sizes.values())
    gpus = model.resources.gpu
    nodes = nodes_of(model)
    enough = {gpus * nodes} if model.kind == "inference" else {gpus, gpus * nodes}
    if not sizes or not total or total in enough or any(word.is_open for word in program.words):
        return
    if "tensor" not in sizes and total < gpus:
        return
    shown = [f"{name} {size}" for name, size in sizes.items() if size > 1] or ["tensor 1"]
    sizes_text = " x ".join(shown).replace(" ", " parallel ", 1)
    message = say("{sizes} needs {total} GPUs, and the pod has {gpus}", sizes=sizes_text, total=total, gpus=gpus)
    if model.kind == "inference" and nodes > 1:
        message = say(
            "{sizes} needs {total} GPUs, and the {nodes} nodes have {gpus}",
            sizes=sizes_text,
            total=total,
            nodes=nodes,
            gpus=gpus * nodes,
        )
    if model.kind == "inference" and nodes > 1:
        yield diagnostic_at(document, "GPU503", message, next(iter(given.values()))[0], _split_of(total, gpus, nodes))
        return
    hint = say("set `resources.gpu: {total}`", total=total)
    size, remainder = divmod(gpus, total // sizes.get("tensor", total))
    if "tensor" in sizes and size and not remainder:
        hint = say("set `resources.gpu: {total}`, or the tensor parallel size to {size}", total=total, size=size)
    yield diagnostic_at(document, "GPU503", message, next(iter(given.values()))[0], hint)


def _split_of(total: int, gpus: int, nodes: int) -> Sentence:
    """Return how to give the GPUs of a replica to a server: all of a node to tensor, the nodes to pipeline parallel."""
    if not gpus:
        return say("set `resources.gpu: {total}`", total=-(-total // nodes))
    if total % gpus:
        return say("use tensor parallel {gpus} x pipeline parallel {nodes}", gpus=gpus, nodes=nodes)
    return say(
        "set `resources.nodes: {needed}`, or use tensor parallel {gpus} x pipeline parallel {nodes}",
        needed=total // gpus,
        gpus=gpus,
        nodes=nodes,
    )


def _processes(document: Document, model: Job, program: Program) -> Iterator[Diagnostic]:
    """Report numbers of processes and nodes in the command that differ from the document's."""
    words = _launcher_words(program)
    gpus = model.resources.gpu
    per_node = option(words, "--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num-gpus")
    if per_node is not None and (processes := number(per_node[1])) is not None and gpus > 0 and processes != gpus:
        yield diagnostic_at(
            document,
            "GPU504",
            say("{processes} processes per node are started on {gpus} GPUs", processes=processes, gpus=gpus),
            per_node[0],
            say("set it to {gpus}, or remove it: NPROC_PER_NODE and PET_NPROC_PER_NODE are set already", gpus=gpus),
        )
    if model.kind not in ("training", "inference"):
        return
    if model.kind == "training" and model.resources.node_range is not None:
        # The number of nodes of an elastic training is checked in `_elastic`.
        return
    nodes = nodes_of(model)
    given = option(words, "--nnodes", "--num_nodes", "--num-nodes", "--num_machines", "--num-machines")
    if given is not None and (count := number(given[1])) is not None and count != nodes:
        yield diagnostic_at(
            document,
            "GPU504",
            say("the command asks for {count} nodes, and the document has {nodes}", count=count, nodes=nodes),
            given[0],
            say("set `resources.nodes: {count}`, or write `$(NNODES)`", count=count)
            if model.kind == "inference"
            else say(
                "set `{nodes}: {count}`, or remove the option: NNODES and PET_NNODES are set already",
                nodes=document.nodes_field,
                count=count,
            ),
        )
    if _is_accelerate(program) and gpus > 0:
        total = option(words, "--num_processes", "--num-processes")
        if total is not None and (count := number(total[1])) is not None and count != gpus * nodes:
            cards = say("{nodes} nodes with {gpus} GPUs each", nodes=nodes, gpus=gpus)
            cards = cards if nodes > 1 else say("{gpus} GPUs", gpus=gpus)
            message = say(
                "{count} processes are started in total, and the document has {cards}", count=count, cards=cards
            )
            yield diagnostic_at(document, "GPU504", message, total[0], say("set it to {number}", number=gpus * nodes))


def _launcher_words(program: Program) -> Sequence[Word]:
    """Return the options of a known launcher, which are before its script; for any other program, all words."""
    arguments: Sequence[Word] = program.arguments
    flags = TORCHRUN_FLAGS if program.name in TORCHRUN else None
    flags = DEEPSPEED_FLAGS if program.name in DEEPSPEED else flags
    if _is_accelerate(program):
        flags, arguments = _ACCELERATE_FLAGS, _accelerate_arguments(program)
    if flags is None:
        return program.words
    return arguments[: launcher_options(arguments, flags)[1]]


def _is_accelerate(program: Program) -> bool:
    is_launch = program.name != "accelerate" or [word.text for word in program.arguments[:1]] == ["launch"]
    return program.name in _ACCELERATE and is_launch


def _accelerate_arguments(program: Program) -> Sequence[Word]:
    return program.arguments[1:] if program.name == "accelerate" else program.arguments


def _several_nodes(document: Document, nodes: int, gpus: int, program: Program) -> Iterator[Diagnostic]:
    if program.name in _MPI:
        message = say("mpirun reaches the other nodes by ssh, which few images have")
        yield diagnostic_at(
            document, "GPU506", message, program.words[0], say("use torchrun, or an image with ssh keys")
        )
    elif program.name in DEEPSPEED:
        yield from _deepspeed(document, program)
    elif _is_accelerate(program):
        yield from _accelerate(document, nodes, gpus, program)
    else:
        yield from _rendezvous(document, _launcher_words(program))
    for word in program.variables if program.name != "export" else program.arguments:
        name, _, value = word.text.partition("=")
        fixed = name in ("NODE_RANK", "PET_NODE_RANK", "MACHINE_RANK") and number(value) is not None
        if fixed or (name in ("MASTER_ADDR", "PET_MASTER_ADDR") and has_loopback_host(value)):
            message = say("every node would wait for itself: `{text}`", text=word.text)
            if fixed:
                message = say("every node would start as node {rank}: `{text}`", rank=value, text=word.text)
            yield diagnostic_at(
                document, "GPU513", message, word, say("remove it: gpuctl sets the variable for each node")
            )


def _rendezvous(document: Document, words: Sequence[Word]) -> Iterator[Diagnostic]:
    """Report addresses and ranks that keep the nodes of a job from finding each other."""
    alone = next((word for word in words if word.text == "--standalone"), None)
    if alone is not None:
        message = say("`--standalone` makes each node train alone")
        yield diagnostic_at(
            document, "GPU513", message, alone, say("remove it: torchrun reads the PET_ variables that gpuctl sets")
        )
    address = option(words, *_ADDRESSES)
    if address is not None and has_loopback_host(address[1]):
        name = _option_name(words, address[0])
        port = ":$(MASTER_PORT)" if re.search(r":\d+/?\Z", address[1]) else ""
        scheme = re.match(r"[a-z]+://", address[1])
        better = f"{name}={scheme[0] if scheme else ''}$(MASTER_ADDR){port}"
        message = say("`{address}` is each node itself: the nodes do not meet", address=address[1])
        yield diagnostic_at(
            document, "GPU513", message, address[0], say("write `{better}`, or remove it from torchrun", better=better)
        )
    rank = option(words, *_RANKS)
    if rank is not None and number(rank[1]) is not None:
        name = _option_name(words, rank[0])
        message = say("every node would start as node {rank}", rank=rank[1])
        yield diagnostic_at(
            document,
            "GPU513",
            message,
            rank[0],
            say("write `{name}=$(NODE_RANK)`, or remove it from torchrun", name=name),
        )


def _option_name(words: Sequence[Word], value: Word) -> str:
    """Return the option that a word contains, or that precedes it."""
    if value.text.startswith("-"):
        return value.text.partition("=")[0]
    return words[next(index for index, word in enumerate(words) if word is value) - 1].text


def _accelerate(document: Document, nodes: int, gpus: int, program: Program) -> Iterator[Diagnostic]:
    """Report Accelerate without its multi-machine options and without a configuration file."""
    arguments = _accelerate_arguments(program)
    options, script = launcher_options(arguments, _ACCELERATE_FLAGS)
    if "--config_file" in options or any(word.is_open for word in arguments[: script + 1]):
        yield from _rendezvous(document, arguments[:script])
        return
    needed = {
        "--num_machines": str(nodes),
        "--num_processes": str(max(gpus, 1) * nodes),
        "--machine_rank": "$(NODE_RANK)",
        "--main_process_ip": "$(MASTER_ADDR)",
        "--main_process_port": "$(MASTER_PORT)",
    }
    missing = [name for name in ("--num_machines", "--machine_rank", "--main_process_ip") if name not in options]
    if not missing:
        yield from _rendezvous(document, arguments[:script])
        return
    head = program.head + (" launch" if program.name == "accelerate" else "")
    advice = _corrected(head, [f"{name} {value}" for name, value in needed.items()], options, arguments, script)
    message = say("accelerate trains on each node alone without {missing}", missing=missing)
    yield diagnostic_at(document, "GPU513", message, program.words[0], say("write {value}", value=advice))


def _corrected(
    head: str, needed: Sequence[str], options: dict[str, tuple[Word, str]], arguments: Sequence[Word], script: int
) -> Sentence:
    """Return a launcher's command with the required options in front of its other options and its script."""
    names = {re.split("[ =]", text)[0] for text in needed}
    kept = [
        f"{name} {quote(value) if value else ''}".rstrip() for name, (_, value) in options.items() if name not in names
    ]
    script_name = [word.text for word in arguments[script : script + 1]]
    command = f"`{' '.join([head, *needed, *kept, *script_name])} ...`"
    is_in_script = any(word.in_script for word in arguments)
    return Sentence(command) if is_in_script else say("{command}, one list item a word", command=command)


def _deepspeed(document: Document, program: Program) -> Iterator[Diagnostic]:
    """Report DeepSpeed's launcher if it needs ssh, or lacks the options for starting each node's processes locally."""
    arguments = program.arguments
    options, script = launcher_options(arguments, DEEPSPEED_FLAGS)
    missing = sorted({"--node_rank", "--master_addr"} - options.keys())
    rank, address = options.get("--node_rank"), options.get("--master_addr")
    place = program.words[0]
    if any(word.is_open for word in arguments[: script + 1]):
        return
    if "--no_ssh" not in options:
        message = say("deepspeed reaches the other nodes by ssh, which few images have")
        if any(word.text == "--no_ssh" for word in arguments[script:]):
            message = say("`--no_ssh` is after the script, which gets it as an argument: the launcher ignores it")
            place = next(word for word in arguments[script:] if word.text == "--no_ssh")
    elif missing:
        message, place = (
            say("deepspeed fails with `--no_ssh` and without {missing:and}", missing=missing),
            options["--no_ssh"][0],
        )
    elif rank is not None and number(rank[1]) is not None:
        message, place = say("every node would start as node {rank}", rank=rank[1]), rank[0]
    elif address is not None and has_loopback_host(address[1]):
        message, place = say("`{address}` is each node itself: the nodes do not meet", address=address[1]), address[0]
    else:
        return
    needed = ["--no_ssh", "--node_rank=$(NODE_RANK)", "--master_addr=$(MASTER_ADDR)"]
    advice = _corrected(program.head, needed, options, arguments, script)
    hint = say("write {command}, or use torchrun; the hostfile is mounted at /job/hostfile", command=advice)
    yield diagnostic_at(document, "GPU506", message, place, hint)
