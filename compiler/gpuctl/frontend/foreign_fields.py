"""Fields of Kubernetes and of other tools, and what gpuctl's documents have instead of them.

The other tools: Slurm, torchrun, SkyPilot, dstack, Ray, Kubeflow, Argo Workflows, Compose, CI systems.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.language.path_fields import OBJECT_STORAGE
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import fold

POD_FIELDS = {
    fold(name): name
    for name in (
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "resourceClaims",
        "runtimeClassName",
        "schedulerName",
        "securityContext",
        "serviceAccountName",
        "shareProcessNamespace",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
    )
}
POD_FIELDS["serviceaccount"] = "serviceAccountName"
CONTAINER_FIELDS = {
    fold(name): name
    for name in (
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "stdin",
        "terminationMessagePath",
        "tty",
        "volumeDevices",
        "volumeMounts",
    )
}


def write_line(line: str, block: str, more: str = "") -> Sentence:
    """Return the hint to write a line in a block, or without one at the top of the document."""
    if block:
        return say("write `{line}` in `{block}`{more}", line=line, block=block, more=more)
    return say("write `{line}` at the top of the document{more}", line=line, more=more)


class Replacement(NamedTuple):
    """A line of gpuctl's documents that does what a field of another tool, or of Kubernetes, does.

    :ivar place: block that the line belongs in; "" for the top of the document.
    :ivar kinds: kinds that have the field; empty for every kind of job.
    :ivar more: end of the hint.
    :ivar without: the hint for kinds that do not have the field; None: only trainings are named.
    """

    line: str
    place: str = ""
    kinds: tuple[str, ...] = ()
    more: Template = Template("")
    without: Template | None = None

    @property
    def key(self) -> str:
        return self.line.partition(":")[0]

    def hint(self, kind: str, top: str) -> Sentence | None:
        """Return the hint for a document of a kind; None if jobs of the kind cannot have the field.

        :param top: the block of defaults that takes the place of a document; "" in a document.
        """
        more = say(self.more)
        if not self.kinds or kind in self.kinds:
            return write_line(self.line, self.place or top, more)
        if self.kinds != _TRAINING:
            return say(self.without) if self.without is not None else None
        if self.place:
            return say("a training can have `{line}` in `{block}`{more}", line=self.line, block=self.place, more=more)
        return say("a training can have `{line}` at its top{more}", line=self.line, more=more)


_TRAINING = ("training",)
_INFERENCE = ("inference",)
_SERVICES = ("inference", "notebook", "compute")
_OTHER = Template("; other fields go into `podPatch`")
_OPEN_PORTS = Template(
    "remove it: all ports of the pods are open, and `gpuctl port-forward` reaches them; a server is of kind inference"
)
_PROBE = Replacement("health_check: /health", "service", _SERVICES)
_KUBERNETES_FIELDS = {
    "activeDeadlineSeconds": Replacement("max_runtime: 24h", "job", _TRAINING),
    "hostNetwork": Replacement("network: {hostNetwork: true}", "resources"),
    "initContainers": Replacement("init: [{name: NAME, image: IMAGE}]"),
    "lifecycle": Replacement(
        'on: {stop: ["COMMAND"]}', "job", more=Template("; a postStart hook goes into `podPatch`")
    ),
    "livenessProbe": Replacement("liveness: /healthz", "service", _SERVICES),
    "nodeName": Replacement(
        "podPatch: {nodeSelector: {kubernetes.io/hostname: NODE}}", more=Template(", or use a pool")
    ),
    "readinessProbe": _PROBE,
    "securityContext": Replacement("security: {user: 1000}", more=_OTHER),
    "startupProbe": _PROBE,
    "sysctls": Replacement("podPatch: {securityContext: {sysctls: [{name: SYSCTL, value: VALUE}]}}"),
    "terminationGracePeriodSeconds": Replacement("grace: 2m", "job"),
    "volumeMounts": Replacement("storage: {mounts: [{path: /etc/app, configMap: NAME}]}"),
}
"""Fields of Kubernetes' PodSpec and Container that documents have as a field of their own."""
_BLOCKS = (
    (
        "after depends_on dependencies dependency needs",
        Replacement("after: [NAME]", "job", _TRAINING, Template(": it starts when the job NAME has succeeded")),
    ),
    ("schedule cron crontab", Replacement('schedule: "0 2 * * *"', kinds=_TRAINING)),
    (
        "array arrays tasks",
        Replacement(
            "array: 100", kinds=_TRAINING, more=Template(": the program reads its index from GPUCTL_ARRAY_INDEX")
        ),
    ),
    (
        "sweep matrix grid hyperparameters parameters",
        Replacement("sweep: {lr: [1e-5, 2e-5]}", kinds=_TRAINING, more=Template(": one job for each combination")),
    ),
    (
        "head worker workers launcher master ray replica_specs pytorch_replica_specs task_role_specs",
        Replacement("roles: [{name: head}, {name: worker, nodes: 2}]", kinds=_TRAINING),
    ),
    ("elastic elastic_policy", Replacement("nodes: {min: 2, max: 4}", "resources", _TRAINING)),
    ("git repo repository git_repo", Replacement("code: {git: URL, ref: COMMIT}")),
    ("code_dir source_dir source build", Replacement("code: {local: ./src}")),
    ("rdma infiniband", Replacement("network: {rdma: true}", "resources")),
    ("network_mode", Replacement("network: {hostNetwork: true}", "resources")),
    (
        "volumes volume_claims pvc persistent_volume_claim",
        Replacement("storage: {workdirs: [{path: /data, pvc: {claim: NAME}}]}"),
    ),
    (
        "data dataset datasets data_dir output output_dir log_dir checkpoint_dir host_path file_mounts",
        Replacement("storage: {workdirs: [{path: /data}]}", more=Template(": a directory of the node")),
    ),
    (
        "secret secrets secret_name password token",
        Replacement("env: [{name: NAME, secret: NAME, key: KEY}]", "environment"),
    ),
    (
        "disk disk_size ephemeral_storage",
        Replacement("storage: {workdirs: [{path: /scratch, emptyDir: {size: 100Gi}}]}"),
    ),
    ("params hparams lr learning_rate", Replacement('args: ["--lr", "2e-5"]', "environment")),
    (
        "autoscale autoscaling scaling",
        Replacement("autoscaling: {enabled: true, maxReplicas: 4}", kinds=_INFERENCE),
    ),
    (
        "env_file env_files",
        Replacement(
            "envFrom: [{configMap: NAME}]",
            "environment",
            more=Template(" after `kubectl create configmap NAME --from-env-file=FILE`"),
        ),
    ),
    ("email mail mail_user mail_type", Replacement("notify: {failed: true}", "job", _TRAINING)),
    ("metadata", Replacement("job: {name: NAME}")),
    ("container containers", Replacement("environment: {image: IMAGE}")),
    ("cluster cloud region zone", Replacement("placement: {clusters: [CLUSTER]}")),
    ("tags owner project account", Replacement("labels: {team: NAME}", "job")),
    ("ingress domain host hostname url", Replacement("route: {host: HOST}", "service", _INFERENCE)),
    (
        "node node_list node_names",
        Replacement("podPatch: {nodeSelector: {kubernetes.io/hostname: NODE}}", more=Template(", or use a pool")),
    ),
    (
        "privileged",
        Replacement("podPatch: {containers: [{name: main, securityContext: {privileged: true}}]}"),
    ),
    ("ipc", Replacement("podPatch: {hostIPC: true}")),
)
"""Words of other tools -> the line that does the same."""
_NAMES = (
    (
        "distributed nnodes num_nodes node_count world_size replicas instances worker_count",
        Replacement(
            "nodes: 2", "resources", ("training", "inference"), Template(": `gpu` is the number of GPUs per node")
        ),
    ),
    (
        "gpus gpus_per_node nproc_per_node ntasks_per_node num_gpus n_gpus gpu_count gpu_num gres slots nvidia.com/gpu",
        Replacement("gpu: 8", "resources", more=Template(": the number of GPUs per node")),
    ),
    (
        "accelerator gpu_model gpu_name instance_type flavor",
        Replacement("gpu-type: A100-80G", "resources", more=Template(": the model of the GPUs")),
    ),
    ("mig", Replacement("gpu-profile: 1g.10gb", "resources")),
    ("gpu_fraction gpu_portion_request", Replacement("gpu-share: 50%", "resources")),
    ("cpus cores cpu_count num_cpus cpus_per_task vcpu vcpus", Replacement("cpu: 8", "resources")),
    ("mem ram", Replacement("memory: 32Gi", "resources")),
    ("shm_size shared_memory", Replacement("shm: 16Gi", "resources")),
    ("partition node_pool resource_pool", Replacement("pool: POOL", "resources")),
    ("use_spot preemptible", Replacement("spot: true", "resources")),
    ("docker_image container_image img", Replacement("image: IMAGE", "environment")),
    ("image_pull_secrets registry_auth", Replacement("imagePullSecret: NAME", "environment")),
    ("cmd commands script run entrypoint", Replacement('command: ["bash", "-c", "..."]', "environment")),
    ("envs env_vars variables environment_variables", Replacement("env: {NAME: VALUE}", "environment")),
    ("working_dir cwd", Replacement("workdir: /workspace", "environment")),
    (
        "retries retry max_retries restart restart_policy max_restarts backoff_limit",
        Replacement("retries: 3", "job", _TRAINING),
    ),
    (
        "max_runtime time timeout walltime time_limit max_time max_duration duration deadline",
        Replacement("max_runtime: 24h", "job", _TRAINING),
    ),
    ("stop_grace_period", Replacement("grace: 2m", "job")),
    ("qos priority_class priority_class_name", Replacement("priority: high", "job")),
    ("port ports expose service", Replacement("port: 8000", "service", _SERVICES, without=_OPEN_PORTS)),
    ("health probe healthcheck", _PROBE),
    ("min", Replacement("minReplicas: 1", "autoscaling", _INFERENCE)),
    ("max", Replacement("maxReplicas: 4", "autoscaling", _INFERENCE)),
    ("cooldown", Replacement("scaleDownDelay: 5m", "autoscaling", _INFERENCE)),
    ("idle idle_timeout", Replacement("stop_after: 2h", "notebook", ("notebook",))),
)
"""Names that other tools give a field -> the field, as a line. A block that has the field needs only its name."""
OWN_FIELDS = {fold(name): field for name, field in _KUBERNETES_FIELDS.items()} | {
    fold(name): field for names, field in (*_BLOCKS, *_NAMES) for name in names.split()
}
"""Folded field of Kubernetes or another tool -> gpuctl's."""
SAME_FIELDS = {fold(name): field.key for names, field in _NAMES for name in names.split()}
"""Folded name of a field in another tool -> the field of the same meaning."""
_OF_CLAIMS = {"name": "claim", "claimname": "claim", "pvc": "claim"}
OTHER_NAMES = {
    "autoscaling": {"metrics": "metric"},
    "array": {**dict.fromkeys(("count", "tasks", "total"), "size"), "concurrency": "parallelism"},
    "code": {
        **dict.fromkeys(("url", "repo", "repository", "remote"), "git"),
        **dict.fromkeys(("commit", "branch", "tag", "revision", "rev"), "ref"),
        **dict.fromkeys(("recursive", "recurse", "submodule"), "submodules"),
        **dict.fromkeys(("dir", "directory", "subdir", "subpath", "contextdir"), "path"),
        **dict.fromkeys(("token", "password", "sshkey"), "secret"),
    },
    "job": {"ttlsecondsafterfinished": "ttl"},
    "job.notify": {**dict.fromkeys(("success", "succeeded", "end"), "done"), "onfailure": "failed"},
    "model": {"path": "source", "modelpath": "source"},
    "roles": {"replicas": "nodes", "count": "nodes", "needs": "dependsOn"},
    "schedule": {"expression": "cron", "tz": "timezone"},
    "security": {"runasuser": "user", "runasgroup": "group"},
    "service": {"containerport": "targetPort"},
    "service.ports": {"containerport": "port"},
    "service.route": {"domain": "host", "hostname": "host"},
    "storage": dict.fromkeys(
        ("cache", "data", "dataset", "datasets", "hostpath", "output", "path", "volumes", "workdir"), "workdirs"
    ),
    "storage.mounts": {"mountpath": "path", "target": "path"},
    "storage.workdirs": {
        **dict.fromkeys(("host", "hostpath", "source", "src"), "path"),
        **dict.fromkeys(("container", "containerpath", "target", "dst", "dest"), "mountPath"),
        **dict.fromkeys(("claim", "claimname", "persistentvolumeclaim"), "pvc"),
        **dict.fromkeys(("mode", "ro"), "readOnly"),
    },
    "storage.workdirs.nfs": dict.fromkeys(("host", "address", "ip"), "server"),
    "storage.workdirs.pvc": _OF_CLAIMS,
    "storage.workdirs.pvc.create": {"storageclassname": "class", "storageclass": "class"},
    "storage.default.pvc": _OF_CLAIMS,
}
"""Block -> folded key of other tools -> the block's own key."""
_KEY_OF_EACH = Template("write `env: [{{name: NAME, secret: NAME, key: KEY}}]`, one for each variable")
_NO_LFS = Template("files of Git LFS are not fetched: put large files into `storage`")
_AMOUNTS = Template("write `gpu`, `cpu` and `memory` directly in `resources`: requests equal limits")
_DIRECTORY = Template("`mounts` is for ConfigMaps and Secrets: write the entry in `storage.workdirs`")
_FILES = Template("`workdirs` is for directories: write the entry in `storage.mounts`")
_SAVING = Template("remove it: `checkpoint` is the `command` or `signal` that makes the program save")
_TARGET = Template("write `metric: {{name: METRIC, target: 5}}`, or `metric: queue` and `targetQueueLength: 5`")
_PROGRAM = Template("remove it: the image and `command` are the program")
_OUTPUT = Template("remove it: `gpuctl logs` prints the output of the program")
_NPUS = Template("write `gpu: 8` and `gpu-vendor: ascend` in `resources`")
_PACKAGES = Template(
    "packages belong in the image; or install them in the program's own shell: "
    '`command: ["bash", "-c", "pip install -r requirements.txt && python train.py"]`'
)
INSTEAD = {
    ("autoscaling", "target"): _TARGET,
    ("autoscaling", "targetqps"): _TARGET,
    ("code", "lfs"): _NO_LFS,
    ("code", "gitlfs"): _NO_LFS,
    ("init", "envfrom"): _KEY_OF_EACH,
    ("sidecars", "envfrom"): _KEY_OF_EACH,
    **{("job.checkpoint", name): _SAVING for name in ("dir", "directory", "every", "interval", "path")},
    ("resources", "limits"): _AMOUNTS,
    ("resources", "requests"): _AMOUNTS,
    ("roles.resources", "nodes"): Template("`nodes` belongs in the role, beside its `resources`"),
    ("security", "runasnonroot"): Template("write `user: 1000`, or the number of another user than root"),
    ("service.disruption", "minavailable"): Template("write `maxUnavailable`: the number of pods less minAvailable"),
    ("storage", "nfs"): Template("write `workdirs: [{{path: /data, nfs: {{server: SERVER, path: /DIRECTORY}}}}]`"),
    ("storage", "pvc"): Template("write `workdirs: [{{path: /data, pvc: {{claim: NAME}}}}]`"),
    ("storage", "s3"): OBJECT_STORAGE,
    ("storage.mounts", "hostpath"): _DIRECTORY,
    ("storage.mounts", "nfs"): _DIRECTORY,
    ("storage.mounts", "pvc"): _DIRECTORY,
    ("storage.mounts", "subpath"): Template("write `items: [{{key: KEY}}]` for one file of it"),
    ("storage.workdirs", "configmap"): _FILES,
    ("storage.workdirs", "name"): Template("remove it: workdirs have no names"),
    ("storage.workdirs", "s3"): OBJECT_STORAGE,
    ("storage.workdirs", "secret"): _FILES,
    ("storage.workdirs", "server"): Template("write `nfs: {{server: SERVER, path: /DIRECTORY}}`"),
    ("storage.workdirs", "size"): Template("write `emptyDir: {{size: 100Gi}}` for scratch space"),
    ("storage.workdirs.pvc", "size"): Template("write `create: {{size: 100Gi}}` if the claim is to be created"),
}
"""Block and folded key -> what to write instead."""
INSTEAD_ANYWHERE = {
    **dict.fromkeys(
        ("setup", "beforescript", "prerun", "pip", "conda", "requirements", "packages", "python", "pythonversion"),
        _PACKAGES,
    ),
    **dict.fromkeys(("backend", "engine", "framework", "runtime"), _PROGRAM),
    **dict.fromkeys(("log", "logs", "stdout", "stderr"), _OUTPUT),
    **dict.fromkeys(("ascend", "npu", "npus", "huawei.com/ascend910"), _NPUS),
    "spec": Template("remove it: its fields belong at the top of the document"),
    "steps": Template(
        "write one program in `environment`, such as "
        '`command: ["bash", "-c", "python prepare.py && python train.py"]`; '
        "trainings can also wait for each other (`job.after`), and a number of steps is an argument of the program"
    ),
    "accelerators": Template("write `gpu: 8` and `gpu-type: A100-80G` in `resources`"),
}
"""Folded key -> what to write instead, in any block."""
