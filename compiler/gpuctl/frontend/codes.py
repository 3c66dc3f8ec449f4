"""Every diagnostic code: what it means, why it matters, what to do, and the smallest document that triggers it.

Codes are stable: 0xx reading, 1xx documents, 2xx fields, 3xx templates, 4xx what documents say together, 5xx command
lines, 6xx platform and output, 9xx gpuctl itself. In an example ``#!`` ends the line on which the diagnostic stands.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """A code. ``severity`` is its usual one: ``--strict`` makes warnings errors.

    ``example`` triggers it, ``companion`` is the platform document that the example needs.
    """

    code: str
    severity: str
    title: str
    explanation: str
    fix: str
    example: str | None = None
    companion: str | None = None


def _job(kind: str, rest: str = "", *, job: str = "name: demo", environment: str = "image: app:1") -> str:
    return f"kind: {kind}\nversion: v0.1\njob: {{{job}}}\nenvironment: {{{environment}}}\n{rest}"


_POOL = "kind: pool\nversion: v0.1\npool: {name: train}\nnodes:\n  n1: {gpu-type: A100, gpu-count: 8}\n"
_WHOLE_NODE = "resources: {pool: train, gpu: 8, cpu: 1, memory: 1Gi}\n"
_PLATFORM = "kind: platform\nversion: v0.1\n"

_RULES = (
    Rule(
        "GPU001",
        "error",
        "unreadable input",
        "A file or directory cannot be read: it does not exist, permission is denied, or it is no file.",
        "Check the path. A directory is searched for *.yaml and *.yml below it.",
    ),
    Rule(
        "GPU002",
        "error",
        "not UTF-8 text",
        "Documents are UTF-8 text. The file holds other bytes, or control characters that YAML does not allow.",
        "Save the file as UTF-8. Write a control character as an escape in double quotes.",
        'kind: "\x07"  #!\n',
    ),
    Rule(
        "GPU003",
        "error",
        "too large",
        "An input may have 8 MiB. A larger file is nearly always named by mistake.",
        "Split it into several files, or name a directory.",
    ),
    Rule(
        "GPU004",
        "error",
        "not YAML",
        "The text does not follow YAML's rules, so nothing after this place can be read with certainty. Other "
        "documents of "
        "the file are still checked.",
        "Look at the line named and the one above it: an indentation, a quote or a `:` is usually missing or too many.",
        "kind: training: x  #!\n",
    ),
    Rule(
        "GPU005",
        "error",
        "tab used for indentation",
        "YAML forbids tabs in indentation, because editors show them in different widths.",
        "Replace tabs by spaces: `expand -t2 FILE`.",
        "job:\n\tname: demo  #!\n",
    ),
    Rule(
        "GPU006",
        "error",
        "key twice in one mapping",
        "A mapping has each key once. Most YAML readers silently keep the last; gpuctl does not guess.",
        "Remove one of the two.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  image: app:2  #!\n",
    ),
    Rule(
        "GPU007",
        "error",
        "alias that cannot be expanded",
        "`*name` repeats what `&name` marked earlier in the same document. This one refers to nothing, to itself, or "
        "expands "
        "to more than 100,000 values.",
        "Define the anchor before the alias, or write the values out.",
        "job: *missing  #!\n",
    ),
    Rule(
        "GPU008",
        "error",
        "nested too deeply",
        "Documents may be nested 64 levels deep; no field of the language needs ten.",
        "Flatten the document.",
        "a: " + "[" * 70 + "  #!\n",
    ),
    Rule(
        "GPU009",
        "error",
        "no document",
        "The file is empty or holds only comments.",
        "Start from `gpuctl init training`.",
        "# nothing here\n",
    ),
    Rule(
        "GPU010",
        "error",
        "YAML tag",
        "A `!tag` asks for a type of another program; only `!!str` has a meaning here.",
        "Remove the tag, or quote the value if the `!` is text.",
        "kind: !custom training  #!\n",
    ),
    Rule(
        "GPU011",
        "note",
        "file that is not read",
        "In a directory, *.yaml and *.yml are read. This is a file of another name that holds a document, a link to a "
        "directory or out of the repository, a pipe, or a submodule that is not checked out. Its documents do not "
        "exist for gpuctl, so `--prune` refuses to delete anything while it is there.",
        "Rename the file, name it or the linked directory itself, or remove it; `--allow-skipped` passes it over.",
    ),
    Rule(
        "GPU012",
        "note",
        "file without a document, in a directory",
        "The file is empty or holds only comments. Perhaps it was emptied by mistake, so `--prune` refuses to delete "
        "anything while it is there.",
        "Restore its documents, or remove the file; `--allow-skipped` passes it over.",
    ),
    Rule(
        "GPU013",
        "error",
        "directory without documents",
        "A directory that was named holds no *.yaml or *.yml file, at no depth.",
        "Name a file or another directory.",
    ),
    Rule(
        "GPU030",
        "error",
        "too many problems",
        "One file has more problems than anybody reads at once; errors are shown first. What is not shown is counted.",
        "Correct those that are shown, and run the command again.",
    ),
    Rule(
        "GPU101",
        "error",
        "document without kind",
        "`kind` says what a document is: training, inference, notebook, compute, pool, quota or platform.",
        "Add `kind:` as the first line.",
        "version: v0.1  #!\n",
    ),
    Rule(
        "GPU102",
        "error",
        "unknown kind",
        "There is no such kind of document. A Kubernetes manifest needs no compiling.",
        "Use one of the kinds; `gpuctl explain` lists them.",
        "kind: trainning  #!\nversion: v0.1\n",
    ),
    Rule(
        "GPU103",
        "warning",
        "document without version",
        "`version` says which version of the language a document is written in; v0.1 is assumed.",
        "Add `version: v0.1`.",
        "kind: compute  #!\njob: {name: demo}\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU104",
        "error",
        "unknown version",
        "This gpuctl knows version v0.1 of the language.",
        "Write `version: v0.1`.",
        "kind: compute\nversion: v9  #!\njob: {name: demo}\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU105",
        "note",
        "document of somebody else",
        "A directory may hold other YAML. A document with an `apiVersion` and a `kind` of somebody else's is left "
        "alone; a file that is named directly must be gpuctl's.",
        "Nothing.",
    ),
    Rule(
        "GPU106",
        "error",
        "document that is no mapping",
        "A document is a mapping of `key: value` lines that starts with `kind:`.",
        "Start the document with `kind:`.",
        "- kind: training  #!\n",
    ),
    Rule(
        "GPU107",
        "note",
        "document whose owner is unclear",
        "A directory may hold other YAML, which is left alone. This document has neither one of gpuctl's kinds nor the "
        "`apiVersion` and `kind` of a Kubernetes manifest, so it may be one of gpuctl's with a mistake: `--prune` "
        "refuses to delete anything while it is there.",
        "Correct its `kind`, or move it elsewhere; `--allow-skipped` passes it over.",
    ),
    Rule(
        "GPU201",
        "error",
        "required field missing",
        "The document cannot be understood without this field.",
        "Add it; `gpuctl explain FIELD` shows an example.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:  #!\n  command: [python, train.py]\n",
    ),
    Rule(
        "GPU202",
        "error",
        "value of the wrong kind",
        "The field takes another kind of value: a number, a list, a mapping, true or false. Text fields take text "
        "exactly as "
        "written and never have this problem.",
        "Write the kind of value that the message names.",
        _job("training", "resources:\n  gpu: four  #!\n"),
    ),
    Rule(
        "GPU203",
        "error",
        "unknown field",
        "No field has this name in any spelling. Unknown fields are never dropped silently: a misspelt one would "
        "change what "
        "runs without a word.",
        "Use the field that is suggested; `gpuctl explain KIND` lists them.",
        _job("training", "resources:\n  gpu_typ: A100  #!\n"),
    ),
    Rule(
        "GPU204",
        "error",
        "one key in two spellings",
        "`gpu-type`, `gpu_type` and `gpuType` are one key, and a mapping has each key once.",
        "Keep one of them; `gpuctl fmt` writes the canonical spelling.",
        _job("training", "resources:\n  gpu-type: A100\n  gpuType: H100  #!\n"),
    ),
    Rule(
        "GPU205",
        "error",
        "field without a value",
        "The field is written and has no value (YAML's null), so it is not clear whether something was forgotten.",
        'Give it a value, remove the line, or write `""`, `[]` or `{}` for an empty one.',
        _job("training", "storage:  #!\n"),
    ),
    Rule(
        "GPU206",
        "error",
        "value out of range",
        "The value is smaller or larger than what works, or than what Kubernetes takes.",
        "Write a value inside the range that the message names.",
        _job("compute", "service:\n  port: 70000  #!\n"),
    ),
    Rule(
        "GPU207",
        "error",
        "illegal name",
        "Kubernetes allows lower-case letters, digits and `-` in names, because they become host names.",
        "Use the legal name that is suggested.",
        "kind: compute\nversion: v0.1\njob:\n  name: My_Job  #!\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU208",
        "error",
        "not a quantity",
        "Amounts of cpu and memory are Kubernetes quantities: `8`, `500m`, `128Gi`. `128GB` is none, and `memory: "
        "64` is 64 "
        "bytes.",
        "Write a number with a suffix: `m` for thousandths of a core, `Mi` or `Gi` for memory.",
        _job("compute", "resources:\n  memory: 128GB  #!\n"),
    ),
    Rule(
        "GPU209",
        "error",
        "not a duration",
        "Durations are numbers with a unit, or sums of them: `30s`, `45m`, `12h`, `7d`, `1h30m`.",
        "Add the unit.",
        "kind: training\nversion: v0.1\njob:\n  name: demo\n  ttl: 30  #!\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU210",
        "error",
        "unusable path",
        "Paths that are mounted are absolute and normalised, without `..` and `:`. The API server takes others "
        "silently, and "
        "the pod then never starts.",
        "Write the path that is suggested.",
        _job("compute", "storage:\n  workdirs:\n    - path: data/models  #!\n"),
    ),
    Rule(
        "GPU211",
        "error",
        "not one of the possible values",
        "The field takes one of a closed list of values.",
        "Use one of the list.",
        "kind: compute\nversion: v0.1\njob:\n  name: demo\n  priority: urgent  #!\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU212",
        "error",
        "illegal label or annotation",
        "Label values have at most 63 letters, digits, `-`, `_` and `.`; keys may have a DNS prefix and `/`.",
        "Use the legal form that is suggested, or put free text into `description`.",
        "kind: compute\nversion: v0.1\njob:\n  name: demo\n  labels:\n    team: a b  #!\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU213",
        "error",
        "fields that contradict each other",
        "Two fields cannot both hold, or one of them needs another that is missing.",
        "Remove or change one, as the message says.",
        _job("compute", "service:\n  type: ClusterIP\n  nodePort: 30080  #!\n"),
    ),
    Rule(
        "GPU214",
        "error",
        "reserved name",
        "gpuctl or Kubernetes writes this label, annotation or variable itself; another value would break how jobs "
        "are found "
        "or how the pods of a training find each other.",
        "Remove it, or use a name of your own.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  env:\n"
        "    NODE_RANK: 3  #!\n",
    ),
    Rule(
        "GPU215",
        "error",
        "illegal variable name",
        "Environment variables are named with letters, digits, `_`, `-` and `.`, and do not start with a digit.",
        "Rename the variable.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  env:\n    1ST: x  #!\n",
    ),
    Rule(
        "GPU216",
        "error",
        "not an image reference",
        "An image is named `registry/path/name:tag` or `...@sha256:...`, in lower case up to the tag, without a scheme "
        "such as `docker://`. The API server takes any text, and the pod then waits for ever with InvalidImageName.",
        "Correct the reference.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: Team/App:1  #!\n",
    ),
    Rule(
        "GPU217",
        "error",
        "name too long for its kind",
        "Names that the API server accepts can be too long for what is made from them: a Service `svc-NAME`, a pod's "
        "host "
        "name, a label with a hash. Such objects exist and never get a pod. The limits are measured on a real "
        "control plane.",
        "Shorten the name to the length that the message names.",
        "kind: notebook\nversion: v0.1\njob:\n  name: " + "n" * 53 + "  #!\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU218",
        "error",
        "the same thing twice",
        "A variable, port, mount or name is given twice where it can exist once.",
        "Remove or rename one.",
        _job("compute", "storage:\n  workdirs:\n    - path: /data\n    - path: /data  #!\n"),
    ),
    Rule(
        "GPU219",
        "error",
        "podPatch that cannot be applied",
        "A podPatch is a partial PodSpec, validated strictly against Kubernetes' schema. It cannot touch names, the "
        "platform's labels, priority, or what a field of the language is for. The pod that comes out of all patches "
        "must be one that the API server takes: names unique, mounts with their volumes, probes with their ports, "
        "requests within limits.",
        "Correct the field that the message names.",
        _job("compute", "podPatch:\n  hostIpc: true  #!\n"),
    ),
    Rule(
        "GPU220",
        "error",
        "variable that shows other pods' cards",
        "NVIDIA's container runtime gives a container the cards that NVIDIA_VISIBLE_DEVICES names, without asking who "
        "they were given to. Containers with GPUs get its value from the device plugin; for those without gpuctl sets "
        "`void`, because images that default to `all` would see every card of the node. A value of one's own, in `env` "
        "or in a podPatch, goes around both.",
        "Remove the variable. CUDA_VISIBLE_DEVICES chooses among the cards that the pod was given.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  env:\n"
        "    NVIDIA_VISIBLE_DEVICES: all  #!\n",
    ),
    Rule(
        "GPU221",
        "error",
        "priorities out of order",
        "The value of `high` is above that of `medium`, and `medium` above `low`: the scheduler goes by the values, "
        "and with another order the urgent job waits, or is evicted by one that can wait.",
        "Give the more urgent priority the greater value. The defaults are 1000000, 500000 and 100.",
        "kind: platform\nversion: v0.1\npriorities:\n  low: {value: 600000}  #!\n",
    ),
    Rule(
        "GPU301",
        "error",
        "template that refers to nothing",
        "`{{model.name}}` stands for a field of the same document, in any text of a workload. The field, or the block "
        "it is in, is misspelt, not set, or not a single value. A chat template's `{{ messages }}` is left alone.",
        "Correct the reference; write `{{{{` for a literal `{{`.",
        _job("inference", "model: {name: m}\n", environment='image: "app:{{model.nmae}}"').replace(
            'model.nmae}}"}\n', 'model.nmae}}"}  #!\n'
        ),
    ),
    Rule(
        "GPU401",
        "warning",
        "pool declared nowhere",
        "The job's pool is neither among the documents nor in the platform. On a cluster without nodes of this pool "
        "its pods "
        "stay pending.",
        "Compile the job together with its pool, list the pool under `pools` in platform.yaml, or correct the name.",
        _job("compute", "resources:\n  pool: nowhere  #!\n"),
    ),
    Rule(
        "GPU402",
        "error",
        "GPU type that the pool does not have",
        "No node of the pool declares this type, so no pod of the job can be placed.",
        "Use a type of the pool.",
        _POOL
        + "---\n"
        + _job("training", "resources:\n  pool: train\n  gpu: 1\n  cpu: 1\n  memory: 1Gi\n  gpu-type: H100  #!\n"),
    ),
    Rule(
        "GPU403",
        "error",
        "job larger than its pool",
        "A pod asks for more GPUs than any node of the pool has, or a training for more nodes than the pool has room "
        "for. It "
        "would wait for ever.",
        "Ask for less, or use another pool.",
        _POOL + "---\n" + _job("training", "resources:\n  pool: train\n  cpu: 1\n  memory: 1Gi\n  gpu: 16  #!\n"),
    ),
    Rule(
        "GPU404",
        "warning",
        "pool too small for all its jobs",
        "The jobs of the pool ask for more than it has, or are more than it allows. Waiting is normal; the warning "
        "tells "
        "that it will happen.",
        "Give urgent jobs `priority: high`, or add nodes.",
        _POOL.replace("{name: train}", "{name: train}  #!")
        + "".join(f"---\n{_job('training', _WHOLE_NODE, job=f'name: demo-{number}')}" for number in range(2)),
    ),
    Rule(
        "GPU405",
        "warning",
        "autoscaling beyond the pool or quota",
        "At `maxReplicas` the job asks for more GPUs than its pool has or its namespace's quota allows; the last "
        "pods would "
        "stay pending or be refused.",
        "Lower `maxReplicas`.",
        _POOL
        + "---\n"
        + _job(
            "inference",
            "resources: {pool: train, gpu: 4, cpu: 1, memory: 1Gi}\n"
            "autoscaling:\n  enabled: true\n  maxReplicas: 9  #!\n",
        ),
    ),
    Rule(
        "GPU406",
        "warning",
        "jobs beyond their quota",
        "All jobs of the namespace together ask for more than its quota. A quota refuses the pods that go over it.",
        "Raise the quota, or run fewer jobs at a time.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a: {cpu: 1}  #!\n---\n"
        + _job("compute", "resources: {cpu: 4}\n", job="name: demo, namespace: team-a"),
    ),
    Rule(
        "GPU407",
        "error",
        "node in two pools",
        "A node carries one pool label; the second pool would take it from the first.",
        "Remove the node from one of the pools.",
        _POOL + "---\n" + _POOL.replace("train", "other").replace("8}\n", "8}  #!\n"),
    ),
    Rule(
        "GPU408",
        "warning",
        "GPU job without cpu or memory",
        "Without a request the pod may land on a node whose cores and memory are taken, and under a quota it gets the "
        "default request: enough for a shell, not for a data loader.",
        "Name cpu and memory.",
        _job("training", "resources:\n  gpu: 1  #!\n"),
    ),
    Rule(
        "GPU409",
        "warning",
        "shared memory larger than memory",
        "What is in /dev/shm counts as the pod's memory: it would be killed before /dev/shm is full.",
        "Raise memory, or lower shm.",
        _job("compute", "resources:\n  memory: 1Gi\n  shm: 2Gi  #!\n"),
    ),
    Rule(
        "GPU410",
        "warning",
        "gpu-share that nothing enforces",
        "Kubernetes shares no cards by itself. Without HAMi or Volcano in the cluster the pod gets whole cards; the "
        "value is "
        "kept as an annotation.",
        "Remove it, or have the platform set `gpu.sharing`.",
        _job("training", "resources:\n  gpu: 1\n  cpu: 1\n  memory: 1Gi\n  gpu-share: 2Gi  #!\n"),
    ),
    Rule(
        "GPU411",
        "warning",
        "workdir below another with other options",
        "A mount hides what lies below it. A read-only directory inside a writable one is no protection, and a claim "
        "inside a "
        "directory of the node mixes two stores.",
        "Give both the same options, or mount them apart.",
        _job("compute", "storage:\n  workdirs:\n    - path: /data\n    - path: /data/in  #!\n      readOnly: true\n"),
    ),
    Rule(
        "GPU412",
        "warning",
        "retries without effect",
        "A plain Job restarts single pods; a training on several nodes has to restart all of them together.",
        "Have the platform set `training.backend: jobset`, or remove `retries`.",
        "kind: training\nversion: v0.1\njob:\n  name: demo\n  retries: 2  #!\nenvironment: {image: app:1}\n"
        "resources: {nodes: 2, gpu: 8, cpu: 8, memory: 64Gi}\n",
    ),
    Rule(
        "GPU413",
        "warning",
        "pods that do not start together",
        "The scheduler places pods one by one. Two trainings on several nodes can each get half of their pods and "
        "wait for "
        "each other for ever.",
        "Have the platform name a Kueue queue for the pool under `training.queue`.",
        _job("training", "resources:\n  gpu: 8\n  cpu: 8\n  memory: 64Gi\n  nodes: 2  #!\n"),
    ),
    Rule(
        "GPU414",
        "warning",
        "autoscaling on GPUs that are not there",
        "The metric is GPU use, and the job asks for no GPU: the autoscaler would see no value and do nothing.",
        "Use `metric: cpu` or `metric: queue`.",
        _job("inference", "autoscaling:  #!\n  enabled: true\n  maxReplicas: 3\n"),
    ),
    Rule(
        "GPU415",
        "warning",
        "quota on a namespace of everybody",
        "The namespace belongs to the cluster or to everybody without one of their own; the quota would limit them "
        "too.",
        "Name a user or a team.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  default: {gpu: 1}  #!\n",
    ),
    Rule(
        "GPU416",
        "error",
        "two documents that yield one object",
        "Both documents become the same Kubernetes object; one would overwrite the other.",
        "Rename one.",
        "kind: pool\nversion: v0.1\npool: {name: p}\n---\nkind: pool\nversion: v0.1\npool: {name: p}  #!\n",
    ),
    Rule(
        "GPU417",
        "error",
        "two jobs of one name",
        "Commands find a job by its name, so a namespace has each name once, whatever the kinds.",
        "Rename one, or put it into another namespace.",
        _job("training") + "---\nkind: compute\nversion: v0.1\njob:\n  name: demo  #!\nenvironment: {image: app:1}\n",
    ),
    Rule(
        "GPU418",
        "error",
        "nodePort taken twice",
        "A nodePort is opened on every node of the cluster, so it exists once; the API server refuses the second.",
        "Change one, or leave it out: the cluster then chooses a free one.",
        _job("compute", "service: {nodePort: 30080}\n")
        + "---\n"
        + _job("compute", "service:\n  nodePort: 30080  #!\n", job="name: other"),
    ),
    Rule(
        "GPU419",
        "error",
        "job over the pool's limit",
        "The pool's `quota.maxGpuPerJob` limits the GPUs of one job over all its pods.",
        "Ask for fewer GPUs, or use another pool.",
        _POOL
        + "quota: {maxGpuPerJob: 4}\n---\n"
        + _job("training", "resources:\n  pool: train\n  cpu: 1\n  memory: 1Gi\n  gpu: 8  #!\n"),
    ),
    Rule(
        "GPU420",
        "warning",
        "nodePort outside the usual range",
        "Clusters allow 30000-32767 unless the API server's --service-node-port-range says otherwise, and refuse the "
        "rest.",
        "Choose a port inside the range.",
        _job("compute", "service:\n  nodePort: 8080  #!\n"),
    ),
    Rule(
        "GPU421",
        "warning",
        "one user in two quotas",
        "Each quota becomes a ResourceQuota in the user's namespace, and Kubernetes holds all of them: of every amount "
        "the smallest counts, whatever the other quota grants.",
        "Remove the user from one of the two.",
        "kind: quota\nversion: v0.1\nquota: {name: a}\nusers: {zhang-san: {gpu: 8}}\n---\n"
        "kind: quota\nversion: v0.1\nquota: {name: b}\nusers:\n  zhang-san: {gpu: 4}  #!\n",
    ),
    Rule(
        "GPU501",
        "warning",
        "image without a fixed version",
        "`latest` changes under a running job: a node that has the image keeps its copy, another pulls a newer one.",
        "Name a version or a digest.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: nginx:latest  #!\n",
    ),
    Rule(
        "GPU502",
        "warning",
        "program and service on different ports",
        "The command makes the program listen on a port that the Service does not send to: connections would be "
        "refused.",
        "Make `service.port` and the command's port the same.",
        _job(
            "notebook", "service:\n  port: 8000  #!\n", environment="image: 'j:1', command: [jupyter, lab, --port=8888]"
        ),
    ),
    Rule(
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
    Rule(
        "GPU504",
        "warning",
        "processes and GPUs or nodes differ",
        "The launcher is given another number of processes or nodes than the document gives it.",
        "Remove the option: NPROC_PER_NODE, NNODES and torchrun's PET_ variables are set already.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [torchrun, --nproc_per_node=8, t.py]  #!\nresources: {gpu: 4, cpu: 1, memory: 1Gi}\n",
    ),
    Rule(
        "GPU505",
        "warning",
        "misspelt program",
        "LLaMA-Factory installs `llamafactory-cli`; under the other name most images have nothing.",
        "Write `llamafactory-cli`.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [llama-factory-cli, train]  #!\n",
    ),
    Rule(
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
        _PLATFORM + "training: {queue: {q: q}}\npools: [{name: q}]\n",
    ),
    Rule(
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
    Rule(
        "GPU508",
        "note",
        "$$ in a command or variable",
        "Kubernetes expands `$(NAME)` in commands, arguments and variables, and turns `$$` into `$`.",
        "Write `$$$$` where the program should see `$$`.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  args: ['echo $$']  #!\n",
    ),
    Rule(
        "GPU509",
        "warning",
        "command line in one item",
        "Each item of `command` is one word. A whole line in one item is the name of one program, with blanks in it.",
        "Write one item a word.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: ['python app.py']  #!\n",
    ),
    Rule(
        "GPU510",
        "warning",
        "shell syntax without a shell",
        "`&&`, `|` and `>` are the shell's. Without one the program gets them as arguments.",
        'Use `["bash", "-c", "first && second"]`.',
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  command: [a, '&&', b]  #!\n",
    ),
    Rule(
        "GPU601",
        "error",
        "unsupported Kubernetes version",
        "`kubernetes.version` is the minor version that output is validated for; gpuctl carries the schemas of some.",
        "Use one of the versions that the message names.",
        _PLATFORM + "kubernetes:\n  version: '1.10'  #!\n",
    ),
    Rule(
        "GPU602",
        "error",
        "image from another registry",
        "The platform lists the registries that images may come from. The list holds for every image of the pod: "
        "`environment.image`, and what a podPatch adds as a container, init container or image volume, the platform's "
        "own podPatch too. `nginx` means docker.io/library/nginx.",
        "Push the image to one of them.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: elsewhere.example.com/app:1  #!\n",
        _PLATFORM + "image: {registries: [registry.example.com/]}\n",
    ),
    Rule(
        "GPU603",
        "error",
        "two platforms",
        "A compile has one platform: its settings decide what every document becomes.",
        "Remove one, or compile the files apart.",
        _PLATFORM + "labels: {domain: a.example.com}\n---\nkind: platform  #!\nversion: v0.1\n",
    ),
    Rule(
        "GPU604",
        "error",
        "no platform in the platform's file",
        "The file that was named with --platform, or found as platform.yaml, holds no document of `kind: platform`.",
        "Name another file, or add the document.",
        _job("compute"),
        "kind: compute  #!\nversion: v0.1\n",
    ),
    Rule(
        "GPU605",
        "warning",
        "ttl under GitOps",
        "Argo CD and Flux create what is in git and not in the cluster. A finished job that its ttl deletes is "
        "created and "
        "run again, for ever.",
        "Remove the ttl, or the file of a job that is done.",
    ),
    Rule(
        "GPU606",
        "note",
        "node labels left out",
        "A manifest of a Node is dangerous in other hands: `kubectl apply` of an absent name makes a phantom node, "
        "`kubectl "
        "delete -f` deletes the machine's object.",
        "Label the nodes with `kubectl label node`, or include them with `--nodes`.",
        "kind: pool\nversion: v0.1\npool: {name: p}\nnodes:  #!\n  n1: {gpu-type: A100}\n",
    ),
    Rule(
        "GPU607",
        "note",
        "namespace left out",
        "Deleting a Namespace deletes all that is in it, also what others have put there. So the output of a job or a "
        "pool does not hold the namespace that it uses: `gpuctl render -f job.yaml | kubectl delete -f -` would delete "
        "it. The output of a quota holds the namespaces of its users.",
        "Create the namespace with `kubectl create namespace`, or include it with `--namespaces`. `gpuctl apply` "
        "creates the namespace that a document names.",
        "kind: compute\nversion: v0.1\njob:\n  name: demo\n  namespace: team-a  #!\n"
        "environment: {image: registry.example.com/app:1}\n",
    ),
    Rule(
        "GPU608",
        "warning",
        "training replaced at every sync",
        "A Job cannot be changed in place. With plain names Argo CD is told to replace it (`Force=true,Replace=true`), "
        "and unless the Application has `ApplyOutOfSyncOnly=true` it applies, and so replaces, every Job at every "
        "sync: trainings that did not change start anew.",
        "Leave `--job-names plain` out: with the hash of what it is in its name, only a training that changed is a new "
        "Job. Or set `ApplyOutOfSyncOnly=true` in the Application.",
    ),
    Rule(
        "GPU901",
        "error",
        "mistake of gpuctl",
        "An object that gpuctl made does not pass Kubernetes' schema. It is not written.",
        "Report it with the document that caused it.",
    ),
)

CODES: dict[str, Rule] = {rule.code: rule for rule in _RULES}
