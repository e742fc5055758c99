package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// measurement asks for Calls creations, modelled on Requests in turn, with ids that count up from First.
type measurement struct {
	Calls    int               `json:"calls"`
	First    int               `json:"first"`
	Requests []json.RawMessage `json:"requests"`
}

// measure returns the nanoseconds of each CreateContainer, as a runtime waits for it. Each container is
// stopped before the next is created, outside the time, so that the crowd stays as it was.
func (r *runtime) measure(body json.RawMessage) (json.RawMessage, error) {
	var wanted measurement
	if err := json.Unmarshal(body, &wanted); err != nil {
		return nil, err
	}
	models := make([]*api.CreateContainerRequest, len(wanted.Requests))
	for i, request := range wanted.Requests {
		models[i] = &api.CreateContainerRequest{}
		if err := fromJSON.Unmarshal(request, models[i]); err != nil {
			return nil, err
		}
	}
	took := make([]int64, wanted.Calls)
	for i := range took {
		request := proto.Clone(models[i%len(models)]).(*api.CreateContainerRequest)
		request.Container.Id = fmt.Sprintf("%064x", wanted.First+i)
		request.Container.Linux.CgroupsPath = request.Pod.Linux.CgroupParent + "/" + request.Container.Id
		stop := &api.StopContainerRequest{
			Pod:       request.Pod,
			Container: proto.Clone(request.Container).(*api.Container),
		}
		began := time.Now()
		_, err := r.adaptation().CreateContainer(context.Background(), request)
		took[i] = time.Since(began).Nanoseconds()
		if err != nil {
			return nil, err
		}
		if _, err := r.adaptation().StopContainer(context.Background(), stop); err != nil {
			return nil, err
		}
	}
	return json.Marshal(took)
}
