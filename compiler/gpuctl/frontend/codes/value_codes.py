"""Codes of fields (2xx) and of references between them (3xx)."""

from __future__ import annotations

from gpuctl.frontend.codes.code_rule import CHANNELS, DRA, HAMI, JOBSET, PLATFORM, CodeRule, job_document

VALUE_CODES = (
    CodeRule(
        "GPU201",
        "error",
        "required field missing",
        "The document cannot be understood without this field.",
        "Add it; `gpuctl explain FIELD` shows an example.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment:  #!\n  command: [python, train.py]\n",
    ),
    CodeRule(
        "GPU202",
        "error",
        "value of the wrong kind",
        "The field takes another kind of value: a number, a list, a mapping, true or false. Text fields take text "
        "exactly as "
        "written and never have this problem.",
        "Write the kind of value that the message names.",
        job_document("training", "resources:\n  gpu: four  #!\n"),
    ),
    CodeRule(
        "GPU203",
        "error",
        "unknown field",
        "No field has this name in any spelling. Unknown fields are never dropped: a misspelt one would "
        "silently change what runs.",
        "Use the field that is suggested; `gpuctl explain KIND` lists them.",
        job_document("training", "resources:\n  gpu_typ: A100  #!\n"),
    ),
    CodeRule(
        "GPU204",
        "error",
        "one key in two spellings",
        "`gpu-type`, `gpu_type` and `gpuType` are one key, and a mapping has each key once.",
        "Keep one of them; `gpuctl fmt` writes the canonical spelling.",
        job_document("training", "resources:\n  gpu-type: A100\n  gpuType: H100  #!\n"),
    ),
    CodeRule(
        "GPU205",
        "error",
        "field without a value",
        "The field is written and has no value (YAML's null), so it is not clear whether something was forgotten.",
        'Give it a value, remove the line, or write `""`, `[]` or `{}` for an empty one.',
        job_document("training", "storage:  #!\n"),
    ),
    CodeRule(
        "GPU206",
        "error",
        "value out of range",
        "The value is smaller or larger than what works, or than what Kubernetes takes.",
        "Write a value inside the range that the message names.",
        job_document("compute", "service:\n  port: 70000  #!\n"),
    ),
    CodeRule(
        "GPU207",
        "error",
        "illegal name",
        "Kubernetes allows lower-case letters, digits and `-` in names, because they become host names.",
        "Use the legal name that is suggested.",
        "kind: compute\nversion: v0.1\njob:\n  name: My_Job  #!\nenvironment: {image: app:1}\n",
    ),
    CodeRule(
        "GPU208",
        "error",
        "not a quantity",
        "Amounts of cpu and memory are Kubernetes quantities: `8`, `500m`, `128Gi`. `128GB` is not a "
        "quantity, and `memory: 64` is 64 bytes.",
        "Write a number with a suffix: `m` for thousandths of a core, `Mi` or `Gi` for memory.",
        job_document("compute", "resources:\n  memory: 128GB  #!\n"),
    ),
    CodeRule(
        "GPU209",
        "error",
        "not a duration",
        "Durations are numbers with a unit, or sums of them: `30s`, `45m`, `12h`, `7d`, `1h30m`.",
        "Add the unit.",
        "kind: training\nversion: v0.1\njob:\n  name: demo\n  ttl: 30  #!\nenvironment: {image: app:1}\n",
    ),
    CodeRule(
        "GPU210",
        "error",
        "unusable path",
        "Paths that are mounted are absolute and normalised, without `..` and `:`. The API server takes others "
        "silently, and "
        "the pod then never starts.",
        "Write the path that is suggested.",
        job_document("compute", "storage:\n  workdirs:\n    - path: data/models  #!\n"),
    ),
    CodeRule(
        "GPU211",
        "error",
        "not one of the possible values",
        "The field takes one of a closed list of values.",
        "Use one of the list.",
        "kind: compute\nversion: v0.1\njob:\n  name: demo\n  priority: urgent  #!\nenvironment: {image: app:1}\n",
    ),
    CodeRule(
        "GPU212",
        "error",
        "illegal label or annotation",
        "Label values have at most 63 letters, digits, `-`, `_` and `.`; keys may have a DNS prefix and `/`.",
        "Use the legal form that is suggested, or put free text into `description`.",
        "kind: compute\nversion: v0.1\njob:\n  name: demo\n  labels:\n    team: a b  #!\nenvironment: {image: app:1}\n",
    ),
    CodeRule(
        "GPU213",
        "error",
        "fields that contradict each other",
        "Two fields cannot both hold, or one of them needs another that is missing.",
        "Remove or change one, as the message shows.",
        job_document("compute", "service:\n  type: ClusterIP\n  nodePort: 30080  #!\n"),
    ),
    CodeRule(
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
    CodeRule(
        "GPU215",
        "error",
        "illegal variable name",
        "Environment variables are named with letters, digits, `_`, `-` and `.`, and do not start with a digit.",
        "Rename the variable.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  env:\n    1ST: x  #!\n",
    ),
    CodeRule(
        "GPU216",
        "error",
        "not an image reference",
        "An image is named `registry/path/name:tag` or `...@sha256:...`, in lower case up to the tag, without a scheme "
        "such as `docker://`. The API server takes any text, and the pod then waits for ever with InvalidImageName.",
        "Correct the reference.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: Team/App:1  #!\n",
    ),
    CodeRule(
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
    CodeRule(
        "GPU218",
        "error",
        "the same thing twice",
        "A variable, port, mount or name is given twice where it can exist once.",
        "Remove or rename one.",
        job_document("compute", "storage:\n  workdirs:\n    - path: /data\n    - path: /data  #!\n"),
    ),
    CodeRule(
        "GPU219",
        "error",
        "podPatch that cannot be applied",
        "A podPatch is a partial PodSpec, validated strictly against Kubernetes' schema. It cannot touch names, the "
        "platform's labels, priority, or what a field of the language is for. The pod that comes out of all patches "
        "must be one that the API server takes: names unique, mounts with their volumes, probes with their ports, "
        "requests within limits.",
        "Correct the field that the message names.",
        job_document("compute", "podPatch:\n  hostIpc: true  #!\n"),
    ),
    CodeRule(
        "GPU220",
        "error",
        "variable that shows other pods' cards",
        "NVIDIA's container runtime gives a container the cards that NVIDIA_VISIBLE_DEVICES names, even if "
        "they are allocated to other pods. Containers with GPUs get its value from the device plugin; for "
        "those without, gpuctl sets `void`, because images that default to `all` would see every card of the "
        "node. A value in `env` or in a podPatch bypasses both.",
        "Remove the variable. CUDA_VISIBLE_DEVICES chooses among the cards that the pod was given.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  env:\n"
        "    NVIDIA_VISIBLE_DEVICES: all  #!\n",
    ),
    CodeRule(
        "GPU221",
        "error",
        "priorities out of order",
        "The value of `high` is above that of `medium`, and `medium` above `low`. The scheduler compares the "
        "values: with another order the urgent job waits, or is preempted by a less urgent one.",
        "Give the more urgent priority the greater value. The defaults are 1000000, 500000 and 100.",
        "kind: platform\nversion: v0.1\npriorities:\n  low: {value: 600000}  #!\n",
    ),
    CodeRule(
        "GPU222",
        "error",
        "argument or variable too long",
        "Linux starts no program with an argument, or a variable as `NAME=value`, of more than 131,071 bytes (kernels "
        "with pages of 4 KiB). The container would end with `argument list too long` each time.",
        "Put the text into a file: in the image, or in a ConfigMap that a podPatch mounts.",
    ),
    CodeRule(
        "GPU223",
        "error",
        "invalid cron expression",
        "`schedule` has five fields: minute, hour, day of month, month and day of week, with numbers or names, lists "
        "`1,15`, ranges `1-5` and steps `*/10`. `@daily` and the like are short forms. Kubernetes counts Sunday as 0, "
        "has no field of seconds, and takes the time zone as a field of its own.",
        "Correct the field that the message names. `timezone` is a field beside `cron`.",
        job_document("training", 'schedule: "0 24 * * *"  #!\n'),
    ),
    CodeRule(
        "GPU224",
        "error",
        "training that cannot be scheduled",
        "A schedule becomes a CronJob, which creates Jobs with names of their own. It cannot create a JobSet, which "
        "the platform uses for several nodes with `training.backend: jobset`. DeepSpeed's launcher needs a file with "
        "the names of the pods, which differ in each run.",
        "Use one node, have the platform set `training.backend: job`, or start the program with torchrun.",
        job_document(
            "training",
            'schedule: "@daily"  #!\nresources: {nodes: 2}\n',
            environment="image: app:1, command: [deepspeed, train.py]",
        ),
    ),
    CodeRule(
        "GPU225",
        "error",
        "sweep without jobs, or with too many",
        "A sweep makes a job for each combination of its values: at most 1,000. Two parameters of 40 values have 1,600 "
        "combinations. Without values, or if all combinations are excluded, there is no job.",
        "Use fewer values, exclude combinations, or list those to run in `include`. An `array` has up to 100,000 runs, "
        "whose program computes its values from the index.",
        job_document("training", "sweep: {}  #!\n"),
    ),
    CodeRule(
        "GPU226",
        "error",
        "wrong values in a sweep",
        "A parameter of a sweep is a list of different single values. An entry of `exclude` has values of parameters: "
        "combinations that have all of them are left out. An entry of `include` is a whole combination, with a value "
        "for each parameter. The jobs are separate objects, so nothing limits how many run at a time.",
        "Correct the value that the message names. To limit the jobs at a time, use a Kueue queue with a quota, or an "
        "`array` with `parallelism`.",
        job_document("training", "sweep: {lr: [1e-5, 1e-5]}  #!\n", environment='image: "app:{{sweep.lr}}"'),
    ),
    CodeRule(
        "GPU227",
        "error",
        "not a minimum of GPU memory",
        "`gpu-memory` selects cards with so much memory or more: `>=` and an amount such as `40Gi` or `40G`. Other "
        "comparisons do not exist. In YAML a text that begins with `>` needs quotes.",
        "Write the least memory that the program needs, in quotes.",
        job_document("training", 'resources: {gpu: 1, cpu: 8, memory: 64Gi, gpu-memory: "<40Gi"}  #!\n'),
        DRA,
    ),
    CodeRule(
        "GPU228",
        "error",
        "role that does not exist",
        "`primary` and `dependsOn` refer to roles of the training by name. A role can depend only on roles listed "
        "before it: JobSet starts them in this order.",
        "Correct the name, or list the role earlier.",
        job_document("training", "roles:\n  - name: head\n  - name: worker\n    dependsOn: [haed]  #!\n"),
        JOBSET,
    ),
    CodeRule(
        "GPU230",
        "error",
        "limit that needs Kueue",
        "A ResourceQuota counts GPUs of all types together and lends nothing. Limits per GPU type, borrowing and "
        "weights are those of a Kueue ClusterQueue.",
        "Set `quota: {backend: kueue}` in platform.yaml if the cluster has Kueue. Otherwise limit `gpu`.",
        "kind: quota\nversion: v0.1\nquota: {name: teams}\nusers:\n  zhang-san:\n    gpu-types: {H100: 8}  #!\n",
    ),
    CodeRule(
        "GPU231",
        "error",
        "limits of GPUs that exclude each other",
        "Kueue counts either GPUs of all types together (`gpu`) or those of each type (`gpu-types`). A type is the "
        "nodes with one value of a label. `borrow` adds to one of the two.",
        "Keep one of the fields that the message names.",
        "kind: quota\nversion: v0.1\nquota: {name: teams}\nusers:\n  zhang-san:\n    gpu: 8\n"
        "    gpu-types: {H100: 8}  #!\n",
        PLATFORM + "quota: {backend: kueue}\n",
    ),
    CodeRule(
        "GPU232",
        "error",
        "notification that is never sent",
        "`job.notify` names the events to report: `done`, `failed` and `waiting`. Services and notebooks do not end, "
        "so that they have neither `done` nor `failed`.",
        "Name an event that the job can have.",
        job_document("training", job="name: demo, notify: {channels: [nlp-team]}").replace("]}}", "]}}  #!"),
        CHANNELS,
    ),
    CodeRule(
        "GPU233",
        "error",
        "not a MIG profile of the GPU",
        "`gpu-profile` is one of the parts into which NVIDIA's cards of the job's GPU type can be divided, such as "
        "`1g.10gb`: compute slices and memory. No node ever offers another, so the pod would wait for ever.",
        "Use one of the profiles that are listed. A site with other cards names theirs in the platform's "
        "`gpu.profiles`.",
        job_document(
            "notebook",
            "resources:\n  gpu: 1\n  gpu-type: A100-40G\n  gpu-profile: 1g.12gb  #!\n  cpu: 8\n  memory: 64Gi\n",
        ),
    ),
    CodeRule(
        "GPU234",
        "error",
        "channel that the platform does not have",
        "Notifications go to channels that the platform names in `notify.channels`, each with the format of its "
        "webhook. The address of the webhook is a secret of the service. No document contains it.",
        "Correct the name, or have the platform add the channel. `notify.default` lists the channels of jobs that name "
        "none.",
        job_document("training", job="name: demo, notify: {failed: true, channels: [npl-team]}").replace(
            "]}}", "]}}  #!"
        ),
        CHANNELS,
    ),
    CodeRule(
        "GPU235",
        "error",
        "channel of other namespaces",
        "The platform opens this channel only to jobs of some namespaces (`notify.channels.NAME.namespaces`), so that "
        "a team receives no messages of others.",
        "Use a channel of your team, or have the platform add the namespace.",
        job_document("training", job="name: demo, notify: {failed: true, channels: [cv-team]}").replace(
            "]}}", "]}}  #!"
        ),
        CHANNELS,
    ),
    CodeRule(
        "GPU236",
        "error",
        "local code that cannot be packed",
        "`code.local` is a directory of the repository that contains the document, relative to its file. A document "
        "from standard input, the service or the history has no files beside it.",
        "Correct the path, or fetch the code from a repository with `code.git` and `code.ref`.",
        job_document("training", "code:\n  local: ./src  #!\n"),
    ),
    CodeRule(
        "GPU237",
        "error",
        "not a git repository",
        "git clones over `https://`, `http://` or ssh. An address with a login in it would show the password in the "
        "document, in the cluster and in messages of git.",
        "Write the address as the server shows it for cloning. A login belongs in a Secret that `code.secret` names.",
        job_document("training", "code:\n  git: ./train  #!\n  ref: " + "5f1c0a4b" * 5 + "\n"),
    ),
    CodeRule(
        "GPU238",
        "error",
        "not a commit, branch or tag",
        "git servers send a commit only for its whole name of 40 digits (64 with SHA-256). Names of branches and tags "
        "follow git-check-ref-format; of its characters, letters, digits and `_./+-` are allowed.",
        "Write the commit that `git rev-parse HEAD` prints.",
        job_document("training", "code:\n  git: https://git.example.com/train.git\n  ref: 5f1c0a4b  #!\n"),
    ),
    CodeRule(
        "GPU239",
        "error",
        "file with credentials in local code",
        "The files of `code.local` become a ConfigMap, which every reader of the namespace can read, and with "
        "manifests in git every reader of the repository. Files such as `.env`, `*.pem` and `id_rsa` are refused.",
        "Add the file to `.gitignore`, and give the program its credentials from a Secret.",
    ),
    CodeRule(
        "GPU240",
        "error",
        "GPU type that does not name one chip",
        "HAMi and Volcano hand out the cards of some vendors by a resource for each chip, such as "
        "`huawei.com/Ascend910B3`. A pod with another resource would wait for ever. The chip is recognised in the name "
        "of the GPU type: `910B3`, `Ascend910B3-64G`.",
        "Write a GPU type that names the chip. If the cluster has other resources, the platform names them in "
        "`gpu.vendors`.",
        job_document(
            "training",
            "resources:\n  gpu: 8\n  gpu-vendor: ascend\n  gpu-type: Atlas-800T  #!\n  cpu: 8\n  memory: 64Gi\n",
        ),
        HAMI,
    ),
    CodeRule(
        "GPU241",
        "error",
        "cards or shares that the sharing system does not hand out",
        "Each vendor's cards are divided in another way: by an amount of memory or by a fraction, with or without "
        "cores, one card for each pod or several. HAMi hands out Ascend 910C cards in pairs. Its webhook rejects other "
        "pods, or they wait for ever.",
        "Follow the message. If the cluster has other resources for shares, the platform names them in "
        "`gpu.vendors.VENDOR.share`.",
        job_document(
            "training",
            "resources:\n  gpu: 1\n  gpu-vendor: hygon\n  gpu-share: 0.5  #!\n  cpu: 8\n  memory: 64Gi\n",
        ),
        HAMI,
    ),
    CodeRule(
        "GPU244",
        "error",
        "replica on several nodes without LeaderWorkerSet",
        "With `resources.nodes` of more than 1, each replica of an inference is a group of pods that restart together. "
        "In Kubernetes that is a LeaderWorkerSet, whose controller a cluster may lack: the platform states whether it "
        "is there.",
        "Have the platform set `inference.backend: lws`, or use one node.",
        job_document("inference", "resources:\n  gpu: 8\n  cpu: 8\n  memory: 64Gi\n  nodes: 2  #!\n"),
    ),
    CodeRule(
        "GPU245",
        "error",
        "queue of a replica on several nodes",
        "Kueue admits each replica of a LeaderWorkerSet by itself. `fit` does not predict that, so gpuctl does not put "
        "LeaderWorkerSets into queues.",
        "Remove `resources.queue`, or use one node.",
        job_document(
            "inference", "resources:\n  gpu: 8\n  cpu: 8\n  memory: 64Gi\n  nodes: 2\n  queue: research  #!\n"
        ),
        PLATFORM + "inference: {backend: lws}\n",
    ),
    CodeRule(
        "GPU301",
        "error",
        "template that refers to nothing",
        "`{{model.name}}` stands for a field of the same document, in any text of a workload. The field, or "
        "the block it is in, is misspelt, not set, or not a single value. A chat template's `{{ messages }}` "
        "is not changed.",
        "Correct the reference; write `{{{{` for a literal `{{`.",
        job_document("inference", "model: {name: m}\n", environment='image: "app:{{model.nmae}}"').replace(
            'model.nmae}}"}\n', 'model.nmae}}"}  #!\n'
        ),
    ),
)
