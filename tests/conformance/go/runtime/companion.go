package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"google.golang.org/protobuf/proto"
)

// companion is another plugin on our own socket, made with the official stub. What it answers comes
// from the other side, asked as "<name>.<hook>".
type companion struct {
	name    string
	runtime *runtime
	stub    stub.Stub
}

// asked is what the other side says of a companion: join, leave, push.
type asked struct {
	Index    string          `json:"index"`
	Name     string          `json:"name"`
	Validate bool            `json:"validate"`
	Request  json.RawMessage `json:"request"`
}

func (r *runtime) companions(op string, body json.RawMessage) (json.RawMessage, error) {
	var what asked
	if err := json.Unmarshal(body, &what); err != nil {
		return nil, err
	}
	if op == "join" {
		return nil, r.join(what)
	}
	r.mutex.Lock()
	c, ok := r.others[what.Name]
	r.mutex.Unlock()
	if !ok {
		return nil, fmt.Errorf("no companion is called %q", what.Name)
	}
	if op == "push" {
		return nil, c.push(what.Request)
	}
	c.stub.Stop()
	return nil, nil
}

func (r *runtime) join(what asked) error {
	c := &companion{name: what.Name, runtime: r}
	plugin := any(c)
	if what.Validate {
		var err error
		if plugin, err = asValidator(c); err != nil {
			return err
		}
	}
	made, err := stub.New(plugin,
		stub.WithPluginIdx(what.Index),
		stub.WithPluginName(what.Name),
		stub.WithSocketPath(r.socket),
		stub.WithOnClose(func() {})) // the stub's own way is to end the process
	if err != nil {
		return err
	}
	c.stub = made
	r.mutex.Lock()
	r.others[what.Name] = c
	r.mutex.Unlock()
	return made.Start(context.Background())
}

func (c *companion) push(body json.RawMessage) error {
	var request api.UpdateContainersRequest
	if err := fromJSON.Unmarshal(body, &request); err != nil {
		return err
	}
	_, err := c.stub.UpdateContainers(request.Update)
	return err
}

// CreateContainer answers as the other side says.
func (c *companion) CreateContainer(
	_ context.Context, pod *api.PodSandbox, container *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	var reply api.CreateContainerResponse
	err := c.ask("CreateContainer", &api.CreateContainerRequest{Pod: pod, Container: container}, &reply)
	return reply.Adjust, reply.Update, err
}

// UpdateContainer answers as the other side says.
func (c *companion) UpdateContainer(
	_ context.Context, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources,
) ([]*api.ContainerUpdate, error) {
	var reply api.UpdateContainerResponse
	request := &api.UpdateContainerRequest{Pod: pod, Container: container, LinuxResources: resources}
	err := c.ask("UpdateContainer", request, &reply)
	return reply.Update, err
}

func (c *companion) ask(hook string, request, reply proto.Message) error {
	body, err := toJSON.Marshal(request)
	if err != nil {
		return err
	}
	return c.runtime.question(c.name+"."+hook, body, reply)
}
