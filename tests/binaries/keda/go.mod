// The CustomResourceDefinition of KEDA's ScaledObject, which tests install, and which `make schemas` turns into
// compiler/gpuctl/backend/schemas/keda.json. To move to a newer release: write its version here, `go mod download
// github.com/kedacore/keda/v2`, then `make schemas`.
module gpuctl/tests/binaries/keda

go 1.26.0

require github.com/kedacore/keda/v2 v2.21.0
