module nri-coloc/conformance

go 1.24.3

require (
	github.com/containerd/nri v0.12.0
	google.golang.org/protobuf v1.36.0
)

require (
	github.com/containerd/log v0.1.0 // indirect
	github.com/knqyf263/go-plugin v0.9.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/opencontainers/runtime-spec v1.3.0 // indirect
	github.com/sirupsen/logrus v1.9.3 // indirect
	github.com/tetratelabs/wazero v1.11.0 // indirect
	golang.org/x/mod v0.32.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20241021214115-324edc3d5d38 // indirect
	google.golang.org/grpc v1.69.2 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

require github.com/containerd/ttrpc v1.2.8 // indirect; what the containerd with this NRI has
