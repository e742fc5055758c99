// Marks the root of the program. The builds read versions/<program>-<version>.mod instead (go build -modfile).
// The `go` command chooses its toolchain by this file: the line below is the newest of versions/*.mod.
module nri-coloc.example/kube

go 1.26.6
