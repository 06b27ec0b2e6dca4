package main

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openziti/edge-api/rest_model"
	"github.com/openziti/edge-api/rest_util"
)

// A Stage is shared by the stories: a controller and its administrator.
type Stage struct {
	address   string
	directory string // for files
	trusted   *x509.CertPool
	ledger    *Ledger
	admin     *API // on the management interface
	count     int
}

func NewStage(address, directory string, ledger *Ledger, user, password string) (*Stage, error) {
	trusted, err := rest_util.GetControllerWellKnownCaPool("https://" + address)
	if err != nil {
		return nil, fmt.Errorf("the authorities: %w", err)
	}
	stage := &Stage{address: address, directory: directory, trusted: trusted, ledger: ledger}
	ledger.Tell("management Authentication.Authenticate", func() {
		stage.admin = stage.open("management", Caller{}).login("password", withPassword(user, password))
	})
	if stage.admin == nil {
		return nil, fmt.Errorf("the administrator cannot log in: %v", ledger.faults)
	}
	return stage, nil
}

// Both interfaces, for operations that both have.
var both = []string{"management", "client"}

// fresh returns an unused name.
func (s *Stage) fresh(kind string) string {
	s.count++
	return fmt.Sprintf("credentials %s %d", kind, s.count)
}

func withPassword(user, password string) *rest_model.Authenticate {
	return &rest_model.Authenticate{Username: rest_model.Username(user), Password: rest_model.Password(password)}
}

// login opens a session. Its caller keeps the connection's certificate and the external token.
func (a *API) login(method string, with *rest_model.Authenticate) *API {
	session := a.session(method, with)
	next := a.caller
	next.token = *session.Token
	return a.stage.open(a.name, next)
}

// session opens a session and reads it.
func (a *API) session(method string, with *rest_model.Authenticate) *rest_model.CurrentAPISessionDetail {
	return ask[*rest_model.CurrentAPISessionDetail](a, "Authentication.Authenticate", Fields{"Method": method, "Auth": with})
}

// keptOut is a log-in that must be rejected.
func (a *API) keptOut(method string, with *rest_model.Authenticate) {
	a.refused(401, "INVALID_AUTH", "Authentication.Authenticate", Fields{"Method": method, "Auth": with})
}

// dead checks that the session of this caller has ended.
func (a *API) dead() {
	a.refused(401, "UNAUTHORIZED", "CurrentAPISession.GetCurrentAPISession", nil)
}

// A Person is an identity with a user name and a password.
type Person struct {
	id, user, password, authenticator string
}

func (p Person) auth() *rest_model.Authenticate { return withPassword(p.user, p.password) }

// identity creates an identity without a credential.
func (s *Stage) identity(change func(*rest_model.IdentityCreate)) string {
	name, kind, admin := s.fresh("identity"), rest_model.IdentityTypeDefault, false
	wanted := &rest_model.IdentityCreate{Name: &name, Type: &kind, IsAdmin: &admin}
	if change != nil {
		change(wanted)
	}
	return s.admin.create("Identity.CreateIdentity", Fields{"Identity": wanted})
}

// under puts a new identity under a policy.
func under(policy string) func(*rest_model.IdentityCreate) {
	return func(wanted *rest_model.IdentityCreate) { wanted.AuthPolicyID = &policy }
}

// person creates an identity that logs in with a password.
func (s *Stage) person(change func(*rest_model.IdentityCreate)) Person {
	id := s.identity(change)
	person := Person{id: id, user: "user-" + id, password: "Secret-1-" + id}
	s.admin.do("Authenticator.CreateAuthenticator", Fields{"Authenticator": &rest_model.AuthenticatorCreate{
		Method: ptr("updb"), IdentityID: &id, Username: person.user, Password: person.password}})
	person.authenticator = s.onlyAuthenticator(id)
	return person
}

// onlyAuthenticator returns the id of the only authenticator of an identity.
func (s *Stage) onlyAuthenticator(identity string) string {
	held := ask[rest_model.AuthenticatorList](s.admin, "Identity.GetIdentityAuthenticators", Fields{"ID": identity})
	s.ledger.Must(len(held) == 1, "the identity has %d authenticators, should have one", len(held))
	return *held[0].ID
}

func ptr[T any](value T) *T { return &value }

// in returns a time relative to now, in the type of the packages.
func in(hours int) *strfmt.DateTime {
	return ptr(strfmt.DateTime(time.Now().Add(time.Duration(hours) * time.Hour)))
}
