// Marks the root of the program. The builds read versions/<NRI version>.mod instead (go build -modfile):
// one program, compiled with each version of NRI.
module nri-coloc/conformance

go 1.24.3
