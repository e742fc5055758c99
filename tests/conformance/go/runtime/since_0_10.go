//go:build nri_0_10

package main

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

func init() {
	hooks["UpdatePodSandbox"] = request((*adaptation.Adaptation).UpdatePodSandbox)
	hooks["PostUpdatePodSandbox"] = event((*adaptation.Adaptation).PostUpdatePodSandbox)
}

// validator is a companion that is also asked what it thinks of the merged adjustment.
type validator struct{ *companion }

func asValidator(c *companion) (any, error) {
	return &validator{c}, nil
}

// ValidateContainerAdjustment rejects for the reason that the other side gives.
func (v *validator) ValidateContainerAdjustment(
	_ context.Context, request *api.ValidateContainerAdjustmentRequest,
) error {
	var reply api.ValidateContainerAdjustmentResponse
	if err := v.ask("ValidateContainerAdjustment", request, &reply); err != nil {
		return err
	}
	if reply.Reject {
		return errors.New(reply.Reason)
	}
	return nil
}
