"""Codes of the platform and of output (6xx), and of gpuctl itself (9xx)."""

from __future__ import annotations

from gpuctl.frontend.codes.code_rule import PLATFORM, CodeRule, job_document

OUTPUT_CODES = (
    CodeRule(
        "GPU601",
        "error",
        "unsupported Kubernetes version",
        "`kubernetes.version` is the minor version that output is validated for; gpuctl carries the schemas of some.",
        "Use one of the versions that the message names.",
        PLATFORM + "kubernetes:\n  version: '1.10'  #!\n",
    ),
    CodeRule(
        "GPU602",
        "error",
        "image from another registry",
        "The platform lists the registries that images may come from. The list holds for every image of the pod: "
        "`environment.image`, and what a podPatch adds as a container, init container or image volume, the platform's "
        "own podPatch too. `nginx` means docker.io/library/nginx.",
        "Push the image to one of them.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: elsewhere.example.com/app:1  #!\n",
        PLATFORM + "image: {registries: [registry.example.com/]}\n",
    ),
    CodeRule(
        "GPU603",
        "error",
        "two platforms",
        "A compile has one platform: its settings decide what every document becomes.",
        "Remove one, or compile the files apart.",
        PLATFORM + "labels: {domain: a.example.com}\n---\nkind: platform  #!\nversion: v0.1\n",
    ),
    CodeRule(
        "GPU604",
        "error",
        "no platform in the platform's file",
        "The file that was named with --platform, or found as platform.yaml, holds no document of `kind: platform`.",
        "Name another file, or add the document.",
        job_document("compute"),
        "kind: compute  #!\nversion: v0.1\n",
    ),
    CodeRule(
        "GPU605",
        "warning",
        "ttl under GitOps",
        "Argo CD and Flux create what is in git and not in the cluster. A finished job that its ttl deletes is "
        "created and "
        "run again, for ever.",
        "Remove the ttl, or the file of a job that is done.",
    ),
    CodeRule(
        "GPU606",
        "note",
        "node labels left out",
        "A manifest of a Node is dangerous: `kubectl apply` with an unknown name creates a phantom node, and "
        "`kubectl delete -f` deletes the Node of a machine.",
        "Label the nodes with `kubectl label node`, or include them with `--nodes`.",
        "kind: pool\nversion: v0.1\npool: {name: p}\nnodes:  #!\n  n1: {gpu-type: A100}\n",
    ),
    CodeRule(
        "GPU607",
        "note",
        "namespace left out",
        "Deleting a Namespace deletes everything in it, including objects of other users. So the output of a "
        "job or a pool does not contain the namespace that it uses: `gpuctl render -f job.yaml | kubectl "
        "delete -f -` would delete it. The output of a quota contains the namespaces of its users.",
        "Create the namespace with `kubectl create namespace`, or include it with `--namespaces`. `gpuctl apply` "
        "creates the namespace that a document names.",
        "kind: compute\nversion: v0.1\njob:\n  name: demo\n  namespace: team-a  #!\n"
        "environment: {image: registry.example.com/app:1}\n",
    ),
    CodeRule(
        "GPU608",
        "warning",
        "training replaced at every sync",
        "A Job cannot be changed in place. With plain names, annotations make Argo CD replace it "
        "(`Force=true,Replace=true`). Unless the Application has `ApplyOutOfSyncOnly=true`, Argo CD applies, "
        "and so replaces, every Job at every sync: unchanged trainings restart.",
        "Omit `--job-names plain`: with a hash of its content in the name, only a changed training is a new "
        "Job. Or set `ApplyOutOfSyncOnly=true` in the Application.",
    ),
    CodeRule(
        "GPU609",
        "note",
        "document not embedded",
        "gpuctl keeps a copy of a document in an annotation of its object, by which `gpuctl apply` sees which fields "
        "the document no longer has. All annotations of an object have 256 KiB together. A larger document is "
        "compressed. One that has no room even so is left out: then `gpuctl history` does not list this version.",
        "Move large values from the document to a file in the image or to a ConfigMap.",
    ),
    CodeRule(
        "GPU901",
        "error",
        "bug in gpuctl",
        "An object that gpuctl generated violates Kubernetes' schema. It is not written.",
        "Report it with the document that caused it.",
    ),
)
