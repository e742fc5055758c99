module nri-coloc/conformance

go 1.24.3

require github.com/containerd/nri v0.8.0

require github.com/containerd/ttrpc v1.2.7 // what the containerd with this NRI has
