// The steps of an application with the Go library: enroll once, then dial a service by its intercept address.
//
//	usage: client JWT-FILE IDENTITY-FILE SERVICE=HOST:PORT...
//
// Prints one JSON object a line, as far as it gets: {"step": "enroll"}, {"step": "authenticate"},
// {"step": "service", "services": [those that it sees]}, {"step": "dial"}. Only the first of the services is dialed.
// The caller limits the run time.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/openziti/sdk-golang/ziti"
	"github.com/openziti/sdk-golang/ziti/enroll"
)

func say(step string, facts map[string]any) {
	line := map[string]any{"step": step}
	for name, value := range facts {
		line[name] = value
	}
	_ = json.NewEncoder(os.Stdout).Encode(line)
}

func run(jwtFile, identityFile, wanted string) error {
	config, err := enrolled(jwtFile, identityFile)
	if err != nil {
		return fmt.Errorf("enroll: %w", err)
	}
	say("enroll", nil)

	config.ConfigTypes = []string{ziti.InterceptV1}
	context, err := ziti.NewContext(config)
	if err != nil {
		return fmt.Errorf("load the identity: %w", err)
	}
	if err := context.Authenticate(); err != nil { // also loads the services
		return fmt.Errorf("authenticate: %w", err)
	}
	identity, err := context.GetCurrentIdentity()
	if err != nil {
		return fmt.Errorf("current identity: %w", err)
	}
	say("authenticate", map[string]any{"identity": *identity.Name})

	details, err := context.GetServices()
	if err != nil {
		return fmt.Errorf("services: %w", err)
	}
	seen := []string{}
	for _, detail := range details {
		seen = append(seen, *detail.Name)
	}
	service, address, _ := strings.Cut(wanted, "=")
	if detail, found := context.GetService(service); found {
		say("service", map[string]any{"services": seen, "permissions": detail.Permissions})
	} else {
		say("service", map[string]any{"services": seen})
	}

	// By the address, which also proves that the intercept.v1 config came with the service. No router is
	// connected, so that the dial fails.
	connection, err := context.DialAddr("tcp", address)
	if err == nil {
		_ = connection.Close()
		say("dial", nil)
		return nil
	}
	say("dial", map[string]any{"failure": err.Error()})
	return nil
}

// enrolled redeems the token and stores the identity in a file, as the library's own tools do.
func enrolled(jwtFile, identityFile string) (*ziti.Config, error) {
	jwt, err := os.ReadFile(jwtFile)
	if err != nil {
		return nil, err
	}
	claims, token, err := enroll.ParseToken(string(jwt))
	if err != nil {
		return nil, err
	}
	flags := enroll.EnrollmentFlags{Token: claims, JwtToken: token, JwtString: string(jwt)}
	if err := flags.KeyAlg.Set("EC"); err != nil {
		return nil, err
	}
	config, err := enroll.Enroll(flags)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(identityFile, text, 0o600); err != nil {
		return nil, err
	}
	return ziti.NewConfigFromFile(identityFile)
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: client JWT-FILE IDENTITY-FILE SERVICE=HOST:PORT...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
