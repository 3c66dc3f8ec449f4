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
        "A model server uses tensor x pipeline x data parallel GPUs; the pod has another number. It fails at the "
        "start, or leaves cards idle.",
        "Make `resources.gpu` and the parallel size the same.",
        "kind: inference\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: vllm:1\n"
        "  args: [--tensor-parallel-size, '4']  #!\nresources: {gpu: 1, cpu: 1, memory: 1Gi}\n",
    ),
    CodeRule(
        "GPU504",
        "warning",
        "processes and GPUs or nodes differ",
        "The number of processes or nodes in the command differs from the one in the document.",
        "Remove the option: NPROC_PER_NODE, NNODES and torchrun's PET_ variables are set already.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [torchrun, --nproc_per_node=8, t.py]  #!\nresources: {gpu: 4, cpu: 1, memory: 1Gi}\n",
    ),
    CodeRule(
        "GPU505",
        "warning",
        "misspelt program",
        "LLaMA-Factory installs `llamafactory-cli`; most images have no program of the other name.",
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
        "Write `deepspeed --no_ssh --node_rank=$(NODE_RANK) --master_addr=$(MASTER_ADDR) train.py ...`: each "
        "pod then starts its own processes, for which the launcher needs the rank of its node and the address "
        "of the first one. The options come before the script. Or use torchrun.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [deepspeed, t.py]  #!\nresources: {nodes: 2, gpu: 8, cpu: 8, memory: 64Gi, pool: q}\n",
        PLATFORM + "training: {queue: {q: q}}\npools: [{name: q}]\n",
    ),
    CodeRule(
        "GPU507",
        "warning",
        "credential in the document",
        "A credential in a command or variable can be read by every user who may see the pod, the repository or the "
        "process list. It is recognised by its form, or by the name of its option or variable (`DB_PASSWORD`).",
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
        "Write one item a word, or let a shell read the line, as the message shows.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: ['python app.py']  #!\n",
    ),
    CodeRule(
        "GPU510",
        "warning",
        "shell syntax without a shell",
        "`&&`, `|`, `>`, `$NAME`, `~` and `*` are shell syntax. Without a shell the program gets them "
        "unchanged, and variables keep them in their values. Kubernetes replaces only `$(NAME)`, in commands, "
        "arguments and values, and only for variables of the container.",
        'Write `$(NAME)`, or use `["bash", "-c", "first && second"]`. The program may read a pattern such as '
        "`/data/*.json` itself: after an option it is a note.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  command: [a, '&&', b]  #!\n",
    ),
    CodeRule(
        "GPU511",
        "warning",
        "a container beside a training's program",
        "A pod ends when its last container has ended. A log shipper or proxy that runs for ever keeps a finished "
        "training, and its GPUs.",
        "Write it in `podPatch.initContainers` with `restartPolicy: Always`. Kubernetes ends such a sidecar with the "
        "program. If the container ends by itself, ignore the warning.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment: {image: 'app:1', command: [run]}\n"
        "podPatch:\n  containers:\n    - {name: shipper, image: 'logs:1'}  #!\n",
    ),
    CodeRule(
        "GPU512",
        "warning",
        "shell script in several items",
        "`bash -c` reads one item as its script. The items after it are the script's parameters `$0`, `$1`, "
        ".... A script that is missing, or in one item with `-c`, does not run.",
        "Write the whole script as one item.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [bash, -c, python, app.py]  #!\n",
    ),
    CodeRule(
        "GPU513",
        "warning",
        "nodes that do not meet",
        "The command has an address, a rank or a mode with which each node of the training is alone: `--standalone`, "
        "localhost, a fixed `--node_rank`, or Accelerate without the options for several machines. The nodes wait for "
        "each other until the rendezvous times out, or each trains a model of its own.",
        "Remove the option: torchrun reads the PET_ variables that gpuctl sets. Other launchers take `$(MASTER_ADDR)`, "
        "`$(MASTER_PORT)` and `$(NODE_RANK)`.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [torchrun, --standalone, t.py]  #!\nresources: {nodes: 2, gpu: 8, cpu: 8, memory: 64Gi, pool: q}\n",
        PLATFORM + "training: {queue: {q: q}}\npools: [{name: q}]\n",
    ),
    CodeRule(
        "GPU514",
        "warning",
        "server that only its container reaches",
        "A server on 127.0.0.1 takes connections from its own container alone. The Service, the probes and other pods "
        "get no answer. Some servers listen there unless they are given an address.",
        "Let it listen on 0.0.0.0.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [uvicorn, 'app:app', --host=127.0.0.1, --port=80]  #!\n",
    ),
    CodeRule(
        "GPU515",
        "warning",
        "notebook without a password",
        "With an empty token and no password every client of the Service has a shell in the container, with its GPUs "
        "and data. A Service of type NodePort is reachable at every node.",
        "Give it a token from a Secret, as the message shows.",
        "kind: notebook\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: j:1\n"
        "  command: [jupyter, lab, --ip=0.0.0.0, --ServerApp.token=]  #!\n",
    ),
    CodeRule(
        "GPU517",
        "warning",
        "parameter that no text refers to",
        "The values of a sweep reach the program only where a text refers to them, such as `--lr={{sweep.lr}}`. "
        "Jobs that differ only in a parameter that is not used do the same work.",
        "Refer to the parameter in `command`, `args` or `env`, or remove it.",
        job_document("training", "sweep: {lr: [1e-5, 2e-5]}  #!\n"),
    ),
    CodeRule(
        "GPU520",
        "warning",
        "claim for one node, mounted on several",
        "`ReadWriteOnce` lets the pods of one node mount a claim, `ReadWriteOncePod` a single pod. Pods on other nodes "
        "wait until it is free, so a job on several nodes never starts. The access of a claim cannot change later.",
        "Write `access: ReadWriteMany`, and a StorageClass that supports it.",
        job_document(
            "compute",
            "service: {replicas: 2}\nstorage:\n"
            "  workdirs: [{path: /work, pvc: {claim: lab, create: {size: 1Gi}}}]  #!\n",
        ),
    ),
    CodeRule(
        "GPU522",
        "warning",
        "code that changes",
        "A branch moves, and a tag can. Pods that start at different times, also the nodes of one training after a "
        "restart, may then run different code, and a run cannot be repeated.",
        "Write the commit, which the printed command shows.",
        job_document("training", "code:\n  git: https://git.example.com/train.git\n  ref: main  #!\n"),
    ),
    CodeRule(
        "GPU523",
        "warning",
        "notebook whose activity is unknown",
        "`notebook.stop_after` pauses a notebook that has not been used for a time. Only Jupyter reports when it was "
        "last used, and only to a request with its token. A notebook whose activity is unknown is never paused.",
        "Keep the token in a Secret and name it in `env`, as the message shows, or use `notebook.max_lifetime`.",
        "kind: notebook\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: j:1\n"
        "  command: [jupyter, lab, --ip=0.0.0.0]\nnotebook:\n  stop_after: 2h  #!\n",
    ),
    CodeRule(
        "GPU526",
        "error",
        "launcher with a fixed number of nodes",
        "The number of nodes of an elastic training (`resources.nodes: {min, max}`) changes while it runs. torchrun "
        "follows it by the variables PET_NNODES and PET_RDZV_*. `deepspeed`, `accelerate launch`, `llamafactory-cli` "
        "and `mpirun` start a number of nodes once, and so does torchrun with `--nnodes=4` or a static rendezvous.",
        "Start the program with torchrun and without these options, or write a single number of nodes.",
        "kind: training\nversion: v0.1\njob: {name: demo, retries: 3}\nenvironment:\n  image: app:1\n"
        "  command: [torchrun, --nnodes=4, t.py]  #!\n"
        "resources: {nodes: {min: 2, max: 4}, gpu: 8, cpu: 8, memory: 64Gi, pool: q}\n",
        PLATFORM + "training: {queue: {q: q}}\npools: [{name: q}]\n",
    ),
    CodeRule(
        "GPU527",
        "warning",
        "program or variable of Slurm",
        "No Slurm runs in a pod: programs such as `srun` are not in the image, or find no cluster, and variables such "
        "as SLURM_PROCID are empty. gpuctl starts the command once on each node, with NNODES, NODE_RANK, MASTER_ADDR "
        "and GPUCTL_ARRAY_INDEX.",
        "Remove `srun`, start the program with torchrun, and write gpuctl's variables. `gpuctl import job.sbatch` "
        "translates a batch script.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [srun, python, t.py]  #!\n",
    ),
)
