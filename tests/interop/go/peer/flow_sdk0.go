//go:build !sdk1

package main

import "github.com/openziti/sdk-golang/ziti"

// This generation of the library has no flow control.
func dialWithFlowControl(_ *ziti.DialOptions, _ bool) {}

func listenWithFlowControl(_ *ziti.ListenOptions, _ bool) {}
