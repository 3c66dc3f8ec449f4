"""Codes of checks across documents, and of documents against the platform (4xx)."""

from __future__ import annotations

from gpuctl.frontend.codes.code_rule import DRA, PLATFORM, POOL, WHOLE_NODE, CodeRule, job_document

LINKER_CODES = (
    CodeRule(
        "GPU401",
        "warning",
        "pool declared nowhere",
        "The job's pool is neither among the documents nor in the platform. On a cluster without nodes of this pool "
        "its pods "
        "stay pending.",
        "Compile the job together with its pool, list the pool under `pools` in platform.yaml, or correct the name.",
        job_document("compute", "resources:\n  pool: nowhere  #!\n"),
    ),
    CodeRule(
        "GPU402",
        "error",
        "GPU type that the pool does not have",
        "No node of the pool declares this type, so no pod of the job can be placed.",
        "Use a type of the pool.",
        POOL
        + "---\n"
        + job_document(
            "training", "resources:\n  pool: train\n  gpu: 1\n  cpu: 1\n  memory: 1Gi\n  gpu-type: H100  #!\n"
        ),
    ),
    CodeRule(
        "GPU403",
        "error",
        "job larger than its pool",
        "A pod asks for more GPUs than any node of the pool has, or a training for more nodes than the pool has room "
        "for. It "
        "would wait for ever.",
        "Ask for less, or use another pool.",
        POOL
        + "---\n"
        + job_document("training", "resources:\n  pool: train\n  cpu: 1\n  memory: 1Gi\n  gpu: 16  #!\n"),
    ),
    CodeRule(
        "GPU404",
        "warning",
        "pool too small for all its jobs",
        "The jobs of the pool request more GPUs than it has, or are more than it allows. Some jobs will wait, "
        "which is normal.",
        "Give urgent jobs `priority: high`, or add nodes.",
        POOL.replace("{name: train}", "{name: train}  #!")
        + "".join(f"---\n{job_document('training', WHOLE_NODE, job=f'name: demo-{number}')}" for number in range(2)),
    ),
    CodeRule(
        "GPU405",
        "warning",
        "autoscaling beyond the pool or quota",
        "At `maxReplicas` the job asks for more GPUs than its pool has or its namespace's quota allows; the "
        "last pods would stay pending or be rejected.",
        "Lower `maxReplicas`.",
        POOL
        + "---\n"
        + job_document(
            "inference",
            "resources: {pool: train, gpu: 4, cpu: 1, memory: 1Gi}\n"
            "autoscaling:\n  enabled: true\n  maxReplicas: 9  #!\n",
        ),
    ),
    CodeRule(
        "GPU406",
        "warning",
        "jobs beyond their quota",
        "All jobs of the namespace together ask for more than its quota. A quota rejects the pods that exceed it.",
        "Raise the quota, or run fewer jobs at a time.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a: {cpu: 1}  #!\n---\n"
        + job_document("compute", "resources: {cpu: 4}\n", job="name: demo, namespace: team-a"),
    ),
    CodeRule(
        "GPU407",
        "error",
        "node in two pools",
        "A node carries one pool label; the second pool would take it from the first.",
        "Remove the node from one of the pools.",
        POOL + "---\n" + POOL.replace("train", "other").replace("8}\n", "8}  #!\n"),
    ),
    CodeRule(
        "GPU408",
        "warning",
        "GPU job without cpu or memory",
        "Without a request the pod may land on a node whose cores and memory are taken, and under a quota it gets the "
        "default request: enough for a shell, not for a data loader.",
        "Name cpu and memory.",
        job_document("training", "resources:\n  gpu: 1  #!\n"),
    ),
    CodeRule(
        "GPU409",
        "warning",
        "shared memory or a RAM disk larger than memory",
        "Data in /dev/shm, and in an `emptyDir` with `medium: Memory`, counts as the pod's memory: the pod would be "
        "killed before they are full.",
        "Raise memory, or lower the size.",
        job_document("compute", "resources:\n  memory: 1Gi\n  shm: 2Gi  #!\n"),
    ),
    CodeRule(
        "GPU410",
        "warning",
        "gpu-share that nothing enforces",
        "Kubernetes shares no cards by itself. Without HAMi or Volcano in the cluster the pod gets whole cards; the "
        "value is "
        "kept as an annotation.",
        "Remove it, or have the platform set `gpu.sharing`.",
        job_document("training", "resources:\n  gpu: 1\n  cpu: 1\n  memory: 1Gi\n  gpu-share: 2Gi  #!\n"),
    ),
    CodeRule(
        "GPU411",
        "warning",
        "workdir below another with other options",
        "A mount hides what lies below it. A read-only directory inside a writable one is no protection, and a claim "
        "inside a "
        "directory of the node mixes two stores.",
        "Give both the same options, or mount them apart.",
        job_document(
            "compute", "storage:\n  workdirs:\n    - path: /data\n    - path: /data/in  #!\n      readOnly: true\n"
        ),
    ),
    CodeRule(
        "GPU412",
        "warning",
        "retries without effect",
        "A plain Job restarts single pods; a training on several nodes has to restart all of them together.",
        "Have the platform set `training.backend: jobset`, or remove `retries`.",
        "kind: training\nversion: v0.1\njob:\n  name: demo\n  retries: 2  #!\nenvironment: {image: app:1}\n"
        "resources: {nodes: 2, gpu: 8, cpu: 8, memory: 64Gi}\n",
    ),
    CodeRule(
        "GPU413",
        "warning",
        "pods that do not start together",
        "The scheduler places pods one by one. Two trainings on several nodes can each get half of their pods and "
        "wait for "
        "each other for ever.",
        "Have the platform name a Kueue queue for the pool under `training.queue`. Whether the cluster has "
        "Kueue is not known here: `gpuctl diff` and `gpuctl apply` report it if it has not.",
        job_document("training", "resources:\n  gpu: 8\n  cpu: 8\n  memory: 64Gi\n  nodes: 2  #!\n"),
    ),
    CodeRule(
        "GPU414",
        "warning",
        "autoscaling on GPU use without GPUs",
        "The metric is GPU use, and the job requests no GPU: the autoscaler would get no value and do nothing.",
        "Use `metric: cpu` or `metric: queue`.",
        job_document("inference", "autoscaling:  #!\n  enabled: true\n  maxReplicas: 3\n"),
    ),
    CodeRule(
        "GPU415",
        "warning",
        "quota on a shared namespace",
        "The namespace is used by the cluster, or by all users without a namespace of their own; the quota "
        "would limit them too.",
        "Name a user or a team.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  default: {gpu: 1}  #!\n",
    ),
    CodeRule(
        "GPU416",
        "error",
        "two documents that yield one object",
        "Both documents become the same Kubernetes object; one would overwrite the other.",
        "Rename one.",
        "kind: pool\nversion: v0.1\npool: {name: p}\n---\nkind: pool\nversion: v0.1\npool: {name: p}  #!\n",
    ),
    CodeRule(
        "GPU417",
        "error",
        "two jobs of one name",
        "Commands find a job by its name, so a namespace has each name once, whatever the kinds.",
        "Rename one, or put it into another namespace.",
        job_document("training")
        + "---\nkind: compute\nversion: v0.1\njob:\n  name: demo  #!\nenvironment: {image: app:1}\n",
    ),
    CodeRule(
        "GPU418",
        "error",
        "nodePort taken twice",
        "A nodePort is opened on every node of the cluster, so it exists once; the API server rejects the second.",
        "Change one, or leave it out: the cluster then chooses a free one.",
        job_document("compute", "service: {nodePort: 30080}\n")
        + "---\n"
        + job_document("compute", "service:\n  nodePort: 30080  #!\n", job="name: other"),
    ),
    CodeRule(
        "GPU419",
        "error",
        "job over the pool's limit",
        "The pool's `quota.maxGpuPerJob` limits the GPUs of one job over all its pods.",
        "Ask for fewer GPUs, or use another pool.",
        POOL
        + "quota: {maxGpuPerJob: 4}\n---\n"
        + job_document("training", "resources:\n  pool: train\n  cpu: 1\n  memory: 1Gi\n  gpu: 8  #!\n"),
    ),
    CodeRule(
        "GPU420",
        "warning",
        "nodePort outside the usual range",
        "Clusters allow 30000-32767 unless the API server's --service-node-port-range sets another range, and "
        "reject other ports.",
        "Choose a port inside the range.",
        job_document("compute", "service:\n  nodePort: 8080  #!\n"),
    ),
    CodeRule(
        "GPU421",
        "warning",
        "one user in two quotas",
        "Each quota becomes a ResourceQuota in the user's namespace, and Kubernetes holds all of them: of every amount "
        "the smallest counts, whatever the other quota grants.",
        "Remove the user from one of the two.",
        "kind: quota\nversion: v0.1\nquota: {name: a}\nusers: {zhang-san: {gpu: 8}}\n---\n"
        "kind: quota\nversion: v0.1\nquota: {name: b}\nusers:\n  zhang-san: {gpu: 4}  #!\n",
    ),
    CodeRule(
        "GPU422",
        "warning",
        "data on the disks of nodes",
        "A workdir without a source is a directory of the node that a pod runs on, created empty if it is missing. "
        "Several nodes, replicas or runs of an array each see another one, and the data of a notebook stays behind "
        "when it starts on another node.",
        "Mount a claim or an NFS directory. If every node has the same data there, write `type: Directory`.",
        job_document(
            "compute", "service: {replicas: 3}\nstorage:\n  workdirs:\n    - {path: /models, readOnly: true}  #!\n"
        ),
    ),
    CodeRule(
        "GPU423",
        "error",
        "path of the node that is not allowed",
        "A pod with the node's `/etc`, `/proc`, `/var/run` or a socket of its container runtime controls the "
        "node and all pods on it. Only the path in the document is checked: a link in an allowed directory "
        "can lead out of it.",
        "Mount a directory of data. The platform can allow paths with `policy.hostPaths`; then all others are "
        "rejected.",
        job_document("compute", "storage:\n  workdirs:\n    - path: /var/run/docker.sock  #!\n"),
    ),
    CodeRule(
        "GPU424",
        "warning",
        "size of a card by its name",
        "A driver reports the memory that a card really has. A card that is sold with 80 GB reports 79.6Gi or 80Gi, "
        "depending on the model, so `>=80Gi` may select none of them.",
        "Write the size with `G`, the unit of names, or a little less: `>=80G` and `>=79Gi` select all cards of 80 GB.",
        job_document("training", 'resources:\n  gpu: 1\n  gpu-memory: ">=80Gi"  #!\n  cpu: 8\n  memory: 64Gi\n'),
        DRA,
    ),
    CodeRule(
        "GPU425",
        "error",
        "more than a claim can have",
        "Kubernetes limits a claim for devices to 32 devices, and a request to 8 alternatives.",
        "Use several nodes with fewer GPUs each, or list fewer GPU types.",
        job_document("training", "resources: {gpu: 40, cpu: 8, memory: 64Gi}  #!\n"),
        DRA,
    ),
    CodeRule(
        "GPU426",
        "error",
        "job larger than its queue",
        "With `quota.backend: kueue` a job waits until the quota of its namespace has room for all its pods; a service "
        "waits for each pod. A job that asks for more than the quota and what it may borrow waits for ever.",
        "Ask for fewer GPUs or nodes, or raise the quota.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a: {gpu: 4}\n---\n"
        + job_document(
            "notebook", "resources: {cpu: 1, memory: 1Gi, gpu: 8}  #!\n", job="name: demo, namespace: team-a"
        ),
        PLATFORM + "quota: {backend: kueue}\n",
    ),
    CodeRule(
        "GPU427",
        "error",
        "GPU type without quota",
        "`gpu-types` of a quota lists the GPU types that jobs of the namespace can use. Kueue admits no job that asks "
        "for another.",
        "Use one of the listed types, or add the type to the quota.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a: {gpu-types: {H100: 4}}\n---\n"
        + job_document("notebook", "resources:\n  gpu: 1\n  gpu-type: A100  #!\n", job="name: demo, namespace: team-a"),
        PLATFORM + "quota: {backend: kueue}\n",
    ),
    CodeRule(
        "GPU433",
        "warning",
        "limit on claimed GPUs that Kueue may not count",
        "With `gpu.allocation: dra` pods request no extended resource such as `nvidia.com/gpu`, which the queues of "
        "quotas limit. Kueue counts the devices of a claim under the resource that its configuration maps their "
        "DeviceClass to. Without a mapping Kueue 0.18 and newer admits no job with claims; older ones count no GPU.",
        "Add the DeviceClass to `resources.deviceClassMappings` of Kueue's configuration, with the resource of the "
        "vendor as the name. Or set `quota: {backend: resourcequota}` in platform.yaml: a ResourceQuota limits claims.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a:\n    gpu: 4  #!\n",
        f"{DRA}quota: {{backend: kueue}}\n",
    ),
    CodeRule(
        "GPU434",
        "warning",
        "common limit on the MIG slices of several profiles",
        "With `gpu.allocation: dra` pods claim MIG slices of a DeviceClass, and a ResourceQuota counts the devices of "
        "a class, whatever their profile. The sum of `gpu-profiles` limits all slices together.",
        "Limit one profile, or accept the common limit.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a:\n"
        "    gpu-profiles: {1g.10gb: 4, 3g.40gb: 1}  #!\n",
        DRA,
    ),
    CodeRule(
        "GPU435",
        "warning",
        "job that Kueue never admits: alternatives in its claim",
        "With `gpu.allocation: dra` and `gpu.products`, a list in `gpu-type` becomes a claim with alternatives "
        "(`firstAvailable`). Kueue 0.19 does not count such claims: the job waits in its queue for ever.",
        "Name one type in `gpu-type`, or leave the queue.",
        job_document(
            "training",
            "resources:\n  queue: research\n  gpu: 1\n  gpu-type: [H100, A100]  #!\n  cpu: 8\n  memory: 64Gi\n",
        ),
        f"{PLATFORM}gpu: {{allocation: dra, products: {{H100: [NVIDIA H100], A100: [NVIDIA A100]}}}}\n",
    ),
    CodeRule(
        "GPU436",
        "note",
        "limit of each chip",
        "Some vendors have an extended resource for each chip, or for whole cards and for shares. Kubernetes and Kueue "
        "count each resource by itself, so the quota limits each to the number, and no quota limits their sum.",
        "Nothing to do if the nodes have one of the resources. With `quota: {backend: kueue}`, `gpu-types` has a limit "
        "of its own for each GPU type.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a:\n    gpu: {ascend: 8}  #!\n",
        PLATFORM + "gpu: {sharing: hami, default: ascend}\n",
    ),
    CodeRule(
        "GPU437",
        "warning",
        "GPU type of the quota that the pool lacks",
        "A job that names no `gpu-type` gets the first type of its quota that has room. Kueue does not know pools: if "
        "the pool of the job has no nodes of this type, its pods wait for ever and hold the quota.",
        "Write the `gpu-type` of the pool in the job.",
        "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  team-a: {gpu-types: {H100: 4, T4: 4}}\n---\n"
        + job_document("notebook", "resources:\n  gpu: 1\n  pool: small  #!\n", job="name: demo, namespace: team-a"),
        PLATFORM + "quota: {backend: kueue}\npools: [{name: small, gpu-types: [T4]}]\n",
    ),
    CodeRule(
        "GPU442",
        "error",
        "two routes with one address",
        "Two services have the same host and path. A controller sends all requests to one of them, or to both in turn.",
        "Give each its own host or path. Longer paths win: `/v1` and `/v1/embeddings` can be two services.",
        job_document("compute", "service:\n  route: {host: a.example.com}\n")
        + "---\n"
        + job_document("compute", "service:\n  route: {host: a.example.com}  #!\n", job="name: other"),
        PLATFORM + "routes: {gateway: infra/public}\n",
    ),
    CodeRule(
        "GPU443",
        "error",
        "field that the platform does not serve",
        "The field needs a part of the cluster that the platform's settings do not mention: a controller of routes, a "
        "newer Kubernetes, an autoscaler, spot nodes, RDMA devices, or drivers of devices (DRA).",
        "If the cluster has it, add the setting that the message names to platform.yaml. Otherwise remove the field.",
        job_document("compute", "service:\n  route: {host: chat.example.com}  #!\n"),
    ),
    CodeRule(
        "GPU444",
        "warning",
        "budget that allows no disruption",
        "A PodDisruptionBudget with `maxUnavailable: 0` refuses every eviction. `kubectl drain` of a node with such a "
        "pod waits until the pod is deleted by hand.",
        "Allow one pod, or delete the pod by hand before the node is drained.",
        job_document("compute", "service:\n  disruption:\n    maxUnavailable: 0  #!\n"),
    ),
    CodeRule(
        "GPU428",
        "error",
        "job that could never start",
        "With `job.after`, a job waits until other jobs have ended. In a circle each job waits for the next one. "
        "Services and notebooks run until they are deleted, and a scheduled training has many runs.",
        "Remove the name, or wait for a training, an array or a sweep.",
        job_document("training", job="name: first, after: [second]").replace("]}", "]}  #!")
        + "---\n"
        + job_document("training", job="name: second, after: [first]"),
    ),
    CodeRule(
        "GPU430",
        "warning",
        "job to wait for that has no document",
        "`job.after` names jobs of the same namespace. Here no document has the name, but one has a similar name, or "
        "the name is in another namespace. A job that exists in the cluster needs no document; an apply checks that.",
        "Correct the name or the namespace.",
        job_document("training", job="name: prepare")
        + "---\n"
        + job_document("training", job="name: demo, after: [prepair]").replace("]}", "]}  #!"),
    ),
    CodeRule(
        "GPU429",
        "error",
        "roles without JobSet",
        "The roles of a training are Jobs that start, restart and end together, which only the controller of JobSet "
        "does.",
        "Install JobSet, and have the platform set `training.backend: jobset`. Trainings on several nodes then become "
        "JobSets, too.",
        job_document("training", "roles:  #!\n  - name: head\n  - {name: worker, nodes: 2}\n"),
    ),
    CodeRule(
        "GPU431",
        "error",
        "two definitions of one claim",
        "A claim is created once, with one size, class and access, and gpuctl never changes it. Documents that create "
        "the same claim must agree; which of them comes first would decide otherwise.",
        "Write the same `create` in all documents, or keep it in one of them.",
        job_document("notebook", "storage:\n  workdirs: [{path: /work, pvc: {claim: lab, create: {size: 10Gi}}}]\n")
        + "---\n"
        + job_document(
            "compute", "storage:\n  workdirs: [{path: /work, pvc: {claim: lab, create: {size: 20Gi}}}]  #!\n"
        ).replace("demo", "other"),
    ),
    CodeRule(
        "GPU432",
        "error",
        "local code that is too large",
        "A ConfigMap holds the packed files of `code.local`: at most 900 KiB, because the API server stores objects of "
        "at most 1.5 MiB. Each job of a sweep has a copy, all of them together at most 16 MiB.",
        "Add data to `.gitignore` and mount it with `storage`, or fetch the code with `code.git` and `code.ref`.",
    ),
    CodeRule(
        "GPU438",
        "error",
        "privilege that the platform denies",
        "The platform's `policy` limits privileged containers, namespaces of the node and capabilities. It is checked "
        "on the final pod, with all patches. With such a privilege a pod can read or change other pods on its node.",
        "Remove the privilege, or have the platform allow it.",
        job_document("training", "podPatch:\n  hostPID: true  #!\n"),
        PLATFORM + "policy: {hostPID: deny}\n",
    ),
    CodeRule(
        "GPU440",
        "error",
        "setting that the platform requires",
        "The platform's `policy.require` names settings that every container must have: a user other than root, and "
        "limits of resources. Containers of `init`, `sidecars` and of a podPatch count.",
        "Add the setting that the message names.",
        job_document("training", "resources: {cpu: 1}  #!\n"),
        PLATFORM + "policy: {require: {limits: [cpu, memory]}}\n",
    ),
    CodeRule(
        "GPU441",
        "error",
        "podPatch on a platform that denies it",
        "A `podPatch` can set any field of a pod. The platform's `policy.podPatch` denies it in documents, or makes it "
        "a warning.",
        "Use the fields of the language; `gpuctl explain KIND` lists them.",
        job_document("training", "podPatch:  #!\n  tolerations: [{operator: Exists}]\n"),
        PLATFORM + "policy: {podPatch: deny}\n",
    ),
    CodeRule(
        "GPU446",
        "warning",
        "model server without a rank on several nodes",
        "The command runs on every node of a replica. Without rank and address, each node's server loads the whole "
        "model by itself, and only the first gets requests.",
        "Give it the variables that are set in every pod: `MASTER_ADDR`, `NNODES` and `NODE_RANK`.",
        "kind: inference\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        "  command: [vllm, serve, /models/demo]  #!\nresources: {nodes: 2, gpu: 8, cpu: 8, memory: 64Gi}\n",
        PLATFORM + "inference: {backend: lws}\n",
    ),
    CodeRule(
        "GPU448",
        "warning",
        "elastic training without retries",
        "When a node is lost, or the number of nodes becomes smaller, the processes on the other nodes fail. torchrun "
        "restarts them, with the nodes that are left, at most `job.retries` times. The default is 0.",
        "Write `job.retries`, and let the program continue from its last checkpoint.",
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment: {image: app:1}\n"
        "resources:\n  nodes: {min: 2, max: 4}  #!\n  gpu: 8\n  cpu: 8\n  memory: 64Gi\n  pool: q\n",
        PLATFORM + "training: {queue: {q: q}}\npools: [{name: q}]\n",
    ),
    CodeRule(
        "GPU449",
        "error",
        "roles in pools of different queues",
        "Kueue admits a job as a whole, so all its roles are in one queue. The platform's `training.queue` names "
        "different queues for the pools of these roles, or none for some of them.",
        "Write `resources.queue` with a queue of the namespace that has quota for the nodes of all these pools.",
        job_document(
            "training",
            "resources: {pool: train}\nroles:\n  - {name: head, resources: {pool: q}}  #!\n"
            "  - {name: worker, nodes: 2}\n",
        ),
        PLATFORM + "training: {backend: jobset, queue: {train: q}}\npools: [{name: train}, {name: q}]\n",
    ),
)
