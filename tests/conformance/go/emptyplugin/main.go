// Command emptyplugin is the least that an NRI plugin can be: the official stub and a handler that
// changes nothing. It is what the benchmark measures beside the project's own plugin.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type empty struct{}

func (empty) CreateContainer(
	context.Context, *api.PodSandbox, *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, nil
}

func main() {
	plugin, err := stub.New(empty{},
		stub.WithPluginIdx("50"), stub.WithPluginName("empty"), stub.WithSocketPath(os.Args[1]))
	if err == nil {
		err = plugin.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
