package main

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	current "github.com/openziti/edge-api/rest_client_api_client/current_identity"
	"github.com/openziti/edge-api/rest_model"
	"github.com/openziti/edge-api/rest_util"
	edge_apis "github.com/openziti/sdk-golang/edge-apis"
	"github.com/openziti/sdk-golang/ziti"
	"github.com/openziti/sdk-golang/ziti/enroll"
)

// The use of credentials by the Go library, above the generated packages: enrollment by each of its methods, log-in with
// every kind of credential, and the answer to a request for a one-time code.
func library(s *Stage) {
	ca, authority := s.authority()
	signing, issuer := newAuthority("library"), "https://"+s.fresh("issuer")
	signer := s.signer(signing, issuer)
	person := s.person(nil)
	bearer := signing.token(issuer, audience, person.id)

	s.step("enroll ottca", func() error {
		id := s.identity(func(wanted *rest_model.IdentityCreate) {
			wanted.Enrollment = &rest_model.IdentityCreateEnrollment{Ottca: ca}
		})
		return s.enrollAndLogIn(s.outstanding(id).JWT, authority.issue(s.fresh("person")))
	})
	s.step("enroll ca", func() error {
		return s.enrollAndLogIn(ask[string](s.admin, "CertificateAuthority.GetCaJWT", Fields{"ID": ca}), authority.issue(s.fresh("person")))
	})
	s.step("enroll updb", s.enrollByPassword)

	_, own := s.enrolled(nil)
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	fail(err)
	s.step("login password", func() error { return s.logIn(edge_apis.NewUpdbCredentials(person.user, person.password)) })
	s.step("login certificate", func() error { return s.logIn(edge_apis.NewCertCredentials([]*x509.Certificate{leaf}, own.PrivateKey)) })
	s.step("login external token", func() error { return s.logIn(edge_apis.NewJwtCredentials(bearer)) })
	s.step("login password and external token", func() error {
		both := s.person(under(s.policy(func(whole *rest_model.AuthPolicyCreate) { whole.Secondary.RequireExtJWTSigner = &signer })))
		with := edge_apis.NewUpdbCredentials(both.user, both.password)
		with.AddJWT(signing.token(issuer, audience, both.id))
		return s.logIn(with)
	})
	s.step("login rest_util", func() error {
		return s.logInByUtilities(leaf, own.PrivateKey.(*ecdsa.PrivateKey), person, "Bearer "+bearer)
	})
	s.step("mfa", func() error { return s.oneTimeCodes(own, leaf) })
}

// step is one action of the library; calls of the story itself are reported in other lines.
func (s *Stage) step(name string, do func() error) {
	err := do()
	s.ledger.Call("sdk-golang " + name)
	s.ledger.Check(err == nil, "%v", err)
	s.ledger.Answered()
}

// enrollAndLogIn enrolls by a token with an existing certificate, and logs in with the result.
func (s *Stage) enrollAndLogIn(token string, with *tls.Certificate) error {
	certFile, keyFile := filepath.Join(s.directory, "certificate.pem"), filepath.Join(s.directory, "key.pem")
	if err := errors.Join(os.WriteFile(certFile, []byte(pemOf(with.Certificate[0])), 0o600),
		os.WriteFile(keyFile, []byte(keyPEM(with.PrivateKey.(*ecdsa.PrivateKey))), 0o600)); err != nil {
		return err
	}
	claims, parsed, err := enroll.ParseToken(token)
	if err != nil {
		return err
	}
	config, err := enroll.Enroll(enroll.EnrollmentFlags{Token: claims, JwtToken: parsed, JwtString: token, CertFile: certFile, KeyFile: keyFile,
		IDName: s.fresh("enrolled")})
	if err != nil {
		return err
	}
	if err := s.logIn(config.Credentials); err != nil {
		return err
	}
	_, err = enroll.Enroll(enroll.EnrollmentFlags{Token: claims, JwtToken: parsed, JwtString: token, CertFile: certFile, KeyFile: keyFile})
	if err == nil {
		return errors.New("could enroll twice")
	}
	return nil
}

func (s *Stage) enrollByPassword() error {
	id := s.identity(nil)
	user, password := "user-"+id, "Secret-"+id
	s.admin.create("Enrollment.CreateEnrollment", Fields{"Enrollment": &rest_model.EnrollmentCreate{
		Method: ptr("updb"), IdentityID: &id, ExpiresAt: in(1), Username: &user}})
	claims, parsed, err := enroll.ParseToken(s.outstanding(id).JWT)
	if err != nil {
		return err
	}
	if err := enroll.EnrollUpdb(enroll.EnrollmentFlags{Token: claims, JwtToken: parsed, Username: user, Password: password}); err != nil {
		return err
	}
	return s.logIn(edge_apis.NewUpdbCredentials(user, password))
}

// logIn opens a session on both interfaces and uses it.
func (s *Stage) logIn(with edge_apis.Credentials) error {
	client := edge_apis.NewClientApiClient([]*url.URL{s.at("client")}, s.trusted, nil)
	if _, err := client.Authenticate(with, nil); err != nil {
		return fmt.Errorf("client interface: %w", rest_util.WrapErr(err))
	}
	if _, err := client.API.CurrentIdentity.GetCurrentIdentity(current.NewGetCurrentIdentityParams(), nil); err != nil {
		return fmt.Errorf("current identity: %w", rest_util.WrapErr(err))
	}
	if _, err := client.API.RefreshApiSession(client.GetCurrentApiSession(), client.HttpClient); err != nil {
		return fmt.Errorf("refreshing the session: %w", err)
	}
	management := edge_apis.NewManagementApiClient([]*url.URL{s.at("management")}, s.trusted, nil)
	if _, err := management.Authenticate(with, nil); err != nil {
		return fmt.Errorf("management interface: %w", rest_util.WrapErr(err))
	}
	return nil
}

func (s *Stage) at(name string) *url.URL {
	return &url.URL{Scheme: "https", Host: s.address, Path: "/edge/" + name + "/v1"}
}

// logInByUtilities logs in with the utilities of the generated packages.
func (s *Stage) logInByUtilities(leaf *x509.Certificate, key *ecdsa.PrivateKey, person Person, bearer string) error {
	address := "https://" + s.address
	if reached, err := rest_util.VerifyController(address, s.trusted); !reached {
		return err
	}
	byHeader := rest_util.NewAuthenticatorAuthHeader(bearer)
	byHeader.RootCas = s.trusted
	_, first := rest_util.NewEdgeManagementClientWithUpdb(person.user, person.password, address, s.trusted)
	_, second := rest_util.NewEdgeManagementClientWithCert(leaf, key, address, s.trusted)
	_, third := rest_util.NewEdgeManagementClientWithAuthenticator(byHeader, address)
	return errors.Join(first, second, third)
}

// oneTimeCodes sets one-time codes up, logs in with one when the library asks for it, and removes them.
func (s *Stage) oneTimeCodes(own *tls.Certificate, leaf *x509.Certificate) error {
	open := func() (ziti.Context, error) {
		credentials := edge_apis.NewCertCredentials([]*x509.Certificate{leaf}, own.PrivateKey)
		credentials.CaPool = s.trusted
		return ziti.NewContext(&ziti.Config{ZtAPI: s.at("client").String(), Credentials: credentials})
	}
	first, err := open()
	if err != nil {
		return err
	}
	defer first.Close()
	if err := first.Authenticate(); err != nil {
		return err
	}
	begun, err := first.EnrollZitiMfa()
	if err != nil {
		return err
	}
	secret, err := secretOf(begun.ProvisioningURL)
	if err != nil {
		return err
	}
	if first.VerifyZitiMfa(secret.wrong()) == nil {
		return errors.New("a wrong code was taken")
	}
	if err := first.VerifyZitiMfa(secret.code(0)); err != nil {
		return err
	}

	second, err := open()
	if err != nil {
		return err
	}
	defer second.Close()
	asked := errors.New("was not asked for a code")
	second.Events().AddMfaTotpCodeListener(func(_ ziti.Context, _ *rest_model.AuthQueryDetail, answer ziti.MfaCodeResponse) {
		asked = answer(secret.code(0))
	})
	if err := errors.Join(second.Authenticate(), asked); err != nil {
		return err
	}
	if _, err := second.GetCurrentIdentity(); err != nil {
		return err
	}
	return second.RemoveZitiMfa(secret.code(0))
}
