//go:build !nri_0_10

package main

import "errors"

func asValidator(*companion) (any, error) {
	return nil, errors.New("this NRI has no validators")
}
