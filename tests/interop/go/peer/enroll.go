package main

import (
	"encoding/json"
	"os"

	library "github.com/openziti/sdk-golang/ziti/enroll"
)

// Redeems a token and stores the identity in a file, as the library's own tools do.
func enroll(jwtFile, identityFile string) error {
	jwt, err := os.ReadFile(jwtFile)
	if err != nil {
		return err
	}
	claims, token, err := library.ParseToken(string(jwt))
	if err != nil {
		return err
	}
	flags := library.EnrollmentFlags{Token: claims, JwtToken: token, JwtString: string(jwt)}
	if err := flags.KeyAlg.Set("EC"); err != nil {
		return err
	}
	config, err := library.Enroll(flags)
	if err != nil {
		return err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(identityFile, text, 0o600)
}
