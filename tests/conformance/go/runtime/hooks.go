package main

import (
	"context"
	"encoding/json"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

type hook func(*adaptation.Adaptation, json.RawMessage) (proto.Message, error)

// hooks has every event that all versions know; the younger ones add theirs (see since_0_10.go).
var hooks = map[string]hook{
	"RunPodSandbox":       event((*adaptation.Adaptation).RunPodSandbox),
	"StopPodSandbox":      event((*adaptation.Adaptation).StopPodSandbox),
	"RemovePodSandbox":    event((*adaptation.Adaptation).RemovePodSandbox),
	"CreateContainer":     request((*adaptation.Adaptation).CreateContainer),
	"PostCreateContainer": event((*adaptation.Adaptation).PostCreateContainer),
	"StartContainer":      event((*adaptation.Adaptation).StartContainer),
	"PostStartContainer":  event((*adaptation.Adaptation).PostStartContainer),
	"UpdateContainer":     request((*adaptation.Adaptation).UpdateContainer),
	"PostUpdateContainer": event((*adaptation.Adaptation).PostUpdateContainer),
	"StopContainer":       request((*adaptation.Adaptation).StopContainer),
	"RemoveContainer":     event((*adaptation.Adaptation).RemoveContainer),
}

// pointer names a message by its struct: the type that an event takes differs between versions.
type pointer[T any] interface {
	*T
	proto.Message
}

func event[T any, P pointer[T]](call func(*adaptation.Adaptation, context.Context, P) error) hook {
	return func(nri *adaptation.Adaptation, body json.RawMessage) (proto.Message, error) {
		message := P(new(T))
		if err := fromJSON.Unmarshal(body, message); err != nil {
			return nil, err
		}
		return &api.Empty{}, call(nri, context.Background(), message)
	}
}

func request[T any, P pointer[T], R proto.Message](
	call func(*adaptation.Adaptation, context.Context, P) (R, error),
) hook {
	return func(nri *adaptation.Adaptation, body json.RawMessage) (proto.Message, error) {
		message := P(new(T))
		if err := fromJSON.Unmarshal(body, message); err != nil {
			return nil, err
		}
		return call(nri, context.Background(), message)
	}
}
