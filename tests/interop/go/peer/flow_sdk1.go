//go:build sdk1

package main

import "github.com/openziti/sdk-golang/ziti"

func dialWithFlowControl(options *ziti.DialOptions, wanted bool) { options.SdkFlowControl = &wanted }

func listenWithFlowControl(options *ziti.ListenOptions, wanted bool) {
	options.SdkFlowControl = &wanted
}
