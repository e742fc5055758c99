module nri-coloc/conformance

go 1.24.3

require github.com/containerd/nri v0.12.0

require github.com/containerd/ttrpc v1.2.8 // what the containerd with this NRI has
