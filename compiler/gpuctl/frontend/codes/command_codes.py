"""Codes of command lines and variables (5xx)."""

from __future__ import annotations

from gpuctl.frontend.codes.code_rule import PLATFORM, CodeRule, job_document

COMMAND_CODES = (
    CodeRule(
        "GPU501",
        "warning",
        "image without a fixed version",
        "`latest` changes under a running job: a node that has the image keeps its copy, another pulls a newer one.",
        "Name a version or a digest.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: nginx:latest  #!\n",
    ),
    CodeRule(
        "GPU502",
        "warning",
        "program and service on different ports",
        "The command makes the program listen on a port that the Service does not send to: connections would be "
        "refused.",
        "Make `service.port` and the command's port the same.",
        job_document(
            "notebook", "service:\n  port: 8000  #!\n", environment="image: 'j:1', command: [jupyter, lab, --port=8888]"
        ),
    ),
    CodeRule(
        "GPU503",
        "warning",
        "parallel size and GPUs differ",
        "A model server splits the model over as many GPUs as its parallel size; the pod has another number. It "
        "fails at the "
        "start, or leaves cards idle.",
        "Make `resources.gpu` and the parallel size the same.",
        "kind: inference\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: vllm:1\n"
        "  args: [--tensor-parallel-size, '4']  #!\nresources: {gpu: 1, cpu: 1, memory: 1Gi}\n",
    ),
    CodeRule(
        "GPU504",
        "warning",
        "processes and GPUs or nodes differ",
        "The launcher is given another number of processes or nodes than the document gives it.",
        "Remove the option: NPROC_PER_NODE, NNODES and torchrun's PET_ variables are set already.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [torchrun, --nproc_per_node=8, t.py]  #!\nresources: {gpu: 4, cpu: 1, memory: 1Gi}\n",
    ),
    CodeRule(
        "GPU505",
        "warning",
        "misspelt program",
        "LLaMA-Factory installs `llamafactory-cli`; under the other name most images have nothing.",
        "Write `llamafactory-cli`.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [llama-factory-cli, train]  #!\n",
    ),
    CodeRule(
        "GPU506",
        "warning",
        "launcher that needs ssh",
        "DeepSpeed's launcher and mpirun start the other nodes' processes by ssh, and few images have a server and "
        "keys.",
        "Write `deepspeed --no_ssh --node_rank=$(NODE_RANK) --master_addr=$(MASTER_ADDR) train.py ...`: each pod then "
        "starts its own processes, and the launcher must be told which node it is and where the first one is. The "
        "options stand before the script. Or use torchrun.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [deepspeed, t.py]  #!\nresources: {nodes: 2, gpu: 8, cpu: 8, memory: 64Gi, pool: q}\n",
        PLATFORM + "training: {queue: {q: q}}\npools: [{name: q}]\n",
    ),
    CodeRule(
        "GPU507",
        "warning",
        "credential in the document",
        "What stands in a command or variable can be read by everybody who may see the pod, the repository or the "
        "process "
        "list.",
        "Keep it in a Secret and refer to it with `secret:` and `key:`.",
        "kind: notebook\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: j:1\n"
        "  command: [jupyter, lab, --IdentityProvider.token=abc123]  #!\n",
    ),
    CodeRule(
        "GPU508",
        "note",
        "$$ in a command or variable",
        "Kubernetes expands `$(NAME)` in commands, arguments and variables, and turns `$$` into `$`.",
        "Write `$$$$` where the program should see `$$`.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  args: ['echo $$']  #!\n",
    ),
    CodeRule(
        "GPU509",
        "warning",
        "command line in one item",
        "Each item of `command` is one word. A whole line in one item is the name of one program, with blanks in it.",
        "Write one item a word.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: ['python app.py']  #!\n",
    ),
    CodeRule(
        "GPU510",
        "warning",
        "shell syntax without a shell",
        "`&&`, `|` and `>` are the shell's. Without one the program gets them as arguments.",
        'Use `["bash", "-c", "first && second"]`.',
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  command: [a, '&&', b]  #!\n",
    ),
)
