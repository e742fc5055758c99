"""A real Kubernetes node on this machine: kubelet, control plane, etcd, CNI and containerd, isolated from the rest."""
