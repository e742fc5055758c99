// Marks the root of the program. The builds read versions/<program>-<version>.mod instead (go build -modfile).
module nri-coloc.example/kube

go 1.24.3
