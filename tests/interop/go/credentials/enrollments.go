package main

import (
	"crypto/rsa"
	"crypto/tls"
	"encoding/base64"
	"math/big"

	"github.com/go-openapi/strfmt"
	"github.com/golang-jwt/jwt/v5"
	"github.com/openziti/edge-api/rest_client_api_client/enroll"
	"github.com/openziti/edge-api/rest_model"
)

// Outstanding is an unused enrollment.
type Outstanding struct{ *rest_model.EnrollmentDetail }

func (o Outstanding) token() strfmt.UUID { return strfmt.UUID(*o.Token) }

// outstanding returns the only enrollment of an identity.
func (s *Stage) outstanding(identity string) Outstanding {
	all := ask[rest_model.EnrollmentList](s.admin, "Identity.GetIdentityEnrollments", Fields{"ID": identity})
	s.ledger.Must(len(all) == 1, "the identity has %d enrollments, should have one", len(all))
	return Outstanding{all[0]}
}

// enrolled creates an identity with a certificate of the controller.
func (s *Stage) enrolled(change func(*rest_model.IdentityCreate)) (string, *tls.Certificate) {
	id := s.identity(func(wanted *rest_model.IdentityCreate) {
		wanted.Enrollment = &rest_model.IdentityCreateEnrollment{Ott: true}
		if change != nil {
			change(wanted)
		}
	})
	return id, s.redeem(*s.outstanding(id).Token, id)
}

// redeem exchanges a one-time token for a certificate.
func (s *Stage) redeem(token, name string) *tls.Certificate {
	key := newKey()
	certs := ask[*rest_model.EnrollmentCerts](s.open("client", Caller{}), "Enroll.EnrollOtt",
		Fields{"OttEnrollmentRequest": &rest_model.OttEnrollmentRequest{Token: token, ClientCsr: request(key, name)}})
	certificate, err := held(certs.Cert, key)
	s.ledger.Must(err == nil, "is no certificate of the key: %v", err)
	return certificate
}

// An enrollment from its creation to the log-in with its credential.
func enrollments(s *Stage) {
	person := s.identity(nil)
	wanted := func(method string, change func(*rest_model.EnrollmentCreate)) Fields {
		whole := &rest_model.EnrollmentCreate{Method: &method, IdentityID: &person, ExpiresAt: in(1)}
		if change != nil {
			change(whole)
		}
		return Fields{"Enrollment": whole}
	}
	id := s.admin.create("Enrollment.CreateEnrollment", wanted("ott", nil))
	s.admin.refused(409, "ENROLLMENT_EXISTS", "Enrollment.CreateEnrollment", wanted("ott", nil))
	s.admin.refused(400, "COULD_NOT_VALIDATE", "Enrollment.CreateEnrollment", wanted("guess", nil))
	s.admin.refused(400, "COULD_NOT_VALIDATE", "Enrollment.CreateEnrollment", wanted("updb", func(w *rest_model.EnrollmentCreate) { w.IdentityID = nil }))
	s.admin.refused(400, "REFERENCED_ENTITY_NOT_FOUND", "Enrollment.CreateEnrollment", wanted("updb", nil)) // without a user name
	s.admin.refused(400, "REFERENCED_ENTITY_NOT_FOUND", "Enrollment.CreateEnrollment", wanted("ottca", nil))
	s.admin.refused(400, "REFERENCED_ENTITY_NOT_FOUND", "Enrollment.CreateEnrollment", wanted("ott", func(w *rest_model.EnrollmentCreate) { w.ExpiresAt = in(-1) }))
	s.ledger.Check(s.admin.lists("Enrollment.ListEnrollments", Fields{"Limit": ptr[int64](500)}, id), "lacks the enrollment")

	before := ask[*rest_model.EnrollmentDetail](s.admin, "Enrollment.DetailEnrollment", Fields{"ID": id})
	s.admin.do("Enrollment.RefreshEnrollment", Fields{"ID": id, "Refresh": &rest_model.EnrollmentRefresh{ExpiresAt: in(2)}})
	s.admin.refused(400, "COULD_NOT_VALIDATE", "Enrollment.RefreshEnrollment", Fields{"ID": id, "Refresh": &rest_model.EnrollmentRefresh{ExpiresAt: in(-1)}})
	s.admin.refused(404, "NOT_FOUND", "Enrollment.RefreshEnrollment", Fields{"ID": "nobody", "Refresh": &rest_model.EnrollmentRefresh{ExpiresAt: in(1)}})
	after := ask[*rest_model.EnrollmentDetail](s.admin, "Enrollment.DetailEnrollment", Fields{"ID": id})
	s.ledger.Check(*after.Token != *before.Token && after.JWT != before.JWT, "shows the token of before the refresh")
	signedBy(s, after.JWT, person)

	guest := s.open("client", Caller{})
	ott := func(token, csr string) Fields {
		return Fields{"OttEnrollmentRequest": &rest_model.OttEnrollmentRequest{Token: token, ClientCsr: csr}}
	}
	guest.refused(400, "INVALID_ENROLLMENT_TOKEN", "Enroll.EnrollOtt", ott(*before.Token, request(newKey(), person)))
	guest.refused(400, "COULD_NOT_PROCESS_CSR", "Enroll.EnrollOtt", ott(*after.Token, "nonsense"))
	certificate := s.redeem(*after.Token, person)
	guest.refused(400, "INVALID_ENROLLMENT_TOKEN", "Enroll.EnrollOtt", ott(*after.Token, request(newKey(), person)))
	for _, name := range both {
		s.open(name, Caller{cert: certificate}).login("cert", nil).do("CurrentIdentity.GetCurrentIdentity", nil)
	}
	s.admin.refused(404, "NOT_FOUND", "Enrollment.DetailEnrollment", Fields{"ID": id})
	id = s.admin.create("Enrollment.CreateEnrollment", wanted("ott", nil))
	s.admin.do("Enrollment.DeleteEnrollment", Fields{"ID": id})
	s.admin.refused(404, "NOT_FOUND", "Enrollment.DeleteEnrollment", Fields{"ID": id})
	enrolledByPassword(s)
}

func enrolledByPassword(s *Stage) {
	person := s.identity(nil)
	user, password := "user-"+person, "Secret-"+person
	s.admin.create("Enrollment.CreateEnrollment", Fields{"Enrollment": &rest_model.EnrollmentCreate{
		Method: ptr("updb"), IdentityID: &person, ExpiresAt: in(1), Username: &user}})
	with := Fields{"Token": s.outstanding(person).token(), "UpdbCredentials": enroll.EnrollUpdbBody{
		Username: rest_model.Username(user), Password: rest_model.Password(password)}}
	guest := s.open("client", Caller{})
	guest.refused(400, "COULD_NOT_VALIDATE", "Enroll.EnrollUpdb", Fields{"Token": with["Token"], "UpdbCredentials": enroll.EnrollUpdbBody{}})
	guest.do("Enroll.EnrollUpdb", with)
	guest.refused(400, "INVALID_ENROLLMENT_TOKEN", "Enroll.EnrollUpdb", with)
	guest.login("password", withPassword(user, password))
}

// signedBy verifies a token with the keys that the controller serves, and a challenge with the same key.
func signedBy(s *Stage, token, subject string) {
	guest := s.open("client", Caller{})
	keys := ask[*rest_model.Jwks](guest, "Enroll.GetEnrollmentJwks", nil)
	s.ledger.Must(len(keys.Keys) == 1, "shows %d keys", len(keys.Keys))
	shown := keys.Keys[0]
	number := func(text string) *big.Int {
		bytes, _ := base64.RawURLEncoding.DecodeString(text)
		return new(big.Int).SetBytes(bytes)
	}
	key := &rsa.PublicKey{N: number(shown.N), E: int(number(shown.E).Int64())}
	s.ledger.Must(*shown.Kty == "RSA" && key.E > 0 && shown.D == "", "is no public RSA key: %s", guest.wire.body)
	parsed, err := jwt.Parse(token, func(of *jwt.Token) (any, error) { return key, nil }, jwt.WithValidMethods([]string{shown.Alg}))
	s.ledger.Must(err == nil, "the enrollment token is not signed with the key: %v", err)
	claimed, _ := parsed.Claims.GetSubject()
	s.ledger.Check(parsed.Header["kid"] == shown.Kid && claimed == subject, "the enrollment token is of %s by %v", claimed, parsed.Header["kid"])

	nonce := "5bd2a0a5-1f0c-4d3e-9a55-2f1f0a0c7e11"
	ask := func(key, nonce string) Fields {
		return Fields{"Nonce": &rest_model.NonceChallenge{KeyID: &key, Nonce: ptr(strfmt.UUID(nonce))}}
	}
	proof := guest.do("Enroll.EnrollmentChallenge", ask(shown.Kid, nonce)).(*rest_model.NonceSignature)
	signature, _ := base64.RawURLEncoding.DecodeString(*proof.Signature)
	wrong := jwt.GetSigningMethod(*proof.Algorithm).Verify("overkeep enrollment challenge: "+nonce, signature, key)
	s.ledger.Check(wrong == nil && *proof.Kid == shown.Kid && *proof.CaPool != "", "is no signature of the key: %s", guest.wire.body)
	guest.refused(400, "COULD_NOT_VALIDATE", "Enroll.EnrollmentChallenge", ask("nobody", nonce))
	guest.refused(400, "COULD_NOT_VALIDATE", "Enroll.EnrollmentChallenge", ask(shown.Kid, "nonsense"))
}

// An edge router, which gets its certificates by a token and extends them over a connection that presents them.
func routers(s *Stage) {
	id := s.admin.create("EdgeRouter.CreateEdgeRouter", Fields{"EdgeRouter": &rest_model.EdgeRouterCreate{Name: ptr(s.fresh("router"))}})
	detail := func() *rest_model.EdgeRouterDetail {
		return ask[*rest_model.EdgeRouterDetail](s.admin, "EdgeRouter.DetailEdgeRouter", Fields{"ID": id})
	}
	first := *detail().EnrollmentToken
	s.admin.do("EdgeRouter.ReEnrollEdgeRouter", Fields{"ID": id})
	s.admin.refused(404, "NOT_FOUND", "EdgeRouter.ReEnrollEdgeRouter", Fields{"ID": "nobody"})
	key, serverKey := newKey(), newKey()
	wanted := func(token, name string) Fields {
		return Fields{"ErOttEnrollmentRequest": &rest_model.ErOttEnrollmentRequest{Token: token,
			ClientCsr: request(key, name), ServerCsr: request(serverKey, name)}}
	}
	guest, token := s.open("client", Caller{}), *detail().EnrollmentToken
	guest.refused(400, "INVALID_ENROLLMENT_TOKEN", "Enroll.EnrollErOtt", wanted(first, id))
	guest.refused(400, "COULD_NOT_PROCESS_CSR", "Enroll.EnrollErOtt", wanted(token, "somebody else"))
	certs := ask[*rest_model.EnrollmentCerts](guest, "Enroll.EnrollErOtt", wanted(token, id))
	certificate, err := held(certs.Cert, key)
	s.ledger.Must(err == nil && certs.ServerCert != "" && certs.Ca != "", "are no certificates: %v", err)
	s.ledger.Check(*detail().IsVerified, "is not verified after its enrollment")

	extend := Fields{"RouterExtendEnrollmentRequest": &rest_model.RouterExtendEnrollmentRequest{
		CertCsr: ptr(request(key, id)), ServerCertCsr: ptr(request(serverKey, id))}}
	guest.refused(401, "UNAUTHORIZED", "Enroll.ExtendRouterEnrollment", extend)
	router := s.open("client", Caller{cert: certificate})
	next := ask[*rest_model.EnrollmentCerts](router, "Enroll.ExtendRouterEnrollment", extend)
	s.ledger.Check(next.Cert != "" && next.ServerCert != "" && next.Cert != certs.Cert, "are not new certificates")
	router.refused(401, "UNAUTHORIZED", "Enroll.ExtendRouterEnrollment", extend)
}
