// The JobSet release whose CustomResourceDefinition `make schemas` turns into
// compiler/gpuctl/backend/schemas/jobset.json. Nothing is compiled from it: the module is only downloaded, checked
// against go.sum and read. To move to a newer release: `go get sigs.k8s.io/jobset@VERSION`, then `make schemas`.
// Not `go mod tidy`, which drops a module that no Go file imports.
module gpuctl/tools/jobset

go 1.26.0

require sigs.k8s.io/jobset v0.12.0
