package main

import (
	"crypto/tls"

	"github.com/go-openapi/strfmt"
	"github.com/openziti/edge-api/rest_client_api_client/enroll"
	"github.com/openziti/edge-api/rest_model"
)

func password(text string) *rest_model.Password { return ptr(rest_model.Password(text)) }
func username(text string) *rest_model.Username { return ptr(rest_model.Username(text)) }

// User names and passwords, by the administrator and by their owner.
func authenticators(s *Stage) {
	person, other, guest := s.person(nil), s.person(nil), s.open("client", Caller{})
	id := person.authenticator
	s.ledger.Check(s.admin.lists("Authenticator.ListAuthenticators", Fields{"Limit": ptr[int64](500)}, id), "lacks the authenticator")
	refusedAuthenticators(s, person, other)

	put := Person{user: person.user + "-put", password: person.password + "-put"}
	s.admin.do("Authenticator.UpdateAuthenticator", Fields{"ID": id, "Authenticator": &rest_model.AuthenticatorUpdate{
		Username: username(put.user), Password: password(put.password)}})
	guest.keptOut("password", person.auth())
	own := guest.login("password", put.auth())
	patched := Person{user: put.user, password: person.password + "-patched"}
	s.admin.do("Authenticator.PatchAuthenticator", Fields{"ID": id, "Authenticator": &rest_model.AuthenticatorPatch{
		Password: ptr(rest_model.PasswordNullable(patched.password))}})
	guest.keptOut("password", put.auth())
	guest.login("password", patched.auth())
	seen := ask[*rest_model.AuthenticatorDetail](s.admin, "Authenticator.DetailAuthenticator", Fields{"ID": id})
	s.ledger.Check(*seen.Method == "updb" && seen.Username == put.user && *seen.IdentityID == person.id, "is not what was put: %s", s.admin.wire.body)

	enrollment := s.admin.create("Authenticator.ReEnrollAuthenticator", Fields{"ID": id, "ReEnroll": &rest_model.ReEnroll{ExpiresAt: in(1)}})
	s.admin.refused(404, "NOT_FOUND", "Authenticator.ReEnrollAuthenticator", Fields{"ID": id, "ReEnroll": &rest_model.ReEnroll{ExpiresAt: in(1)}})
	own.dead()
	guest.keptOut("password", patched.auth())
	again := s.outstanding(person.id)
	s.ledger.Check(*again.ID == enrollment && *again.Method == "updb", "leaves another enrollment")
	guest.do("Enroll.EnrollUpdb", Fields{"Token": strfmt.UUID(*again.Token), "UpdbCredentials": enroll.EnrollUpdbBody{
		Username: rest_model.Username(put.user), Password: rest_model.Password(person.password)}})
	own = guest.login("password", withPassword(put.user, person.password))

	id = s.onlyAuthenticator(person.id)
	s.admin.do("Authenticator.DeleteAuthenticator", Fields{"ID": id})
	s.admin.refused(404, "NOT_FOUND", "Authenticator.DeleteAuthenticator", Fields{"ID": id})
	own.dead()
	for _, name := range both {
		ownAuthenticators(s, name, other)
	}
}

// Invalid authenticators.
func refusedAuthenticators(s *Stage, person, other Person) {
	create := func(change func(*rest_model.AuthenticatorCreate)) Fields {
		whole := &rest_model.AuthenticatorCreate{Method: ptr("updb"), IdentityID: ptr(s.identity(nil)), Username: s.fresh("user"), Password: "some password"}
		change(whole)
		return Fields{"Authenticator": whole}
	}
	operation := "Authenticator.CreateAuthenticator"
	s.admin.refused(409, "MAX_AUTHENTICATOR_METHODS_REACHED", operation, create(func(w *rest_model.AuthenticatorCreate) { w.IdentityID = &person.id }))
	s.admin.refused(400, "COULD_NOT_VALIDATE", operation, create(func(w *rest_model.AuthenticatorCreate) { w.Method = ptr("guess") }))
	s.admin.refused(400, "COULD_NOT_VALIDATE", operation, create(func(w *rest_model.AuthenticatorCreate) { w.Password = "" }))
	s.admin.refused(400, "COULD_NOT_VALIDATE", operation, create(func(w *rest_model.AuthenticatorCreate) { w.Username = other.user }))
	s.admin.refused(404, "NOT_FOUND", operation, create(func(w *rest_model.AuthenticatorCreate) { w.IdentityID = ptr("nobody") }))
	s.admin.refused(400, "COULD_NOT_VALIDATE", "Authenticator.UpdateAuthenticator", Fields{"ID": person.authenticator,
		"Authenticator": &rest_model.AuthenticatorUpdate{}}) // sends null
	s.admin.refused(400, "COULD_NOT_VALIDATE", "Authenticator.PatchAuthenticator", Fields{"ID": person.authenticator,
		"Authenticator": &rest_model.AuthenticatorPatch{Username: ptr(rest_model.UsernameNullable(other.user))}})
	s.admin.refused(404, "NOT_FOUND", "Authenticator.PatchAuthenticator", Fields{"ID": "nobody", "Authenticator": &rest_model.AuthenticatorPatch{}})
	s.admin.refused(404, "NOT_FOUND", "Authenticator.DetailAuthenticator", Fields{"ID": "nobody"})
}

// ownAuthenticators tests the operations on one's own password, which is the same afterwards.
func ownAuthenticators(s *Stage, name string, person Person) {
	guest := s.open(name, Caller{})
	own, stranger := guest.login("password", person.auth()), s.person(nil)
	s.ledger.Check(own.lists("CurrentAPISession.ListCurrentIdentityAuthenticators", nil, person.authenticator), "lacks the own one")
	s.ledger.Check(!own.lists("CurrentAPISession.ListCurrentIdentityAuthenticators", nil, stranger.authenticator), "shows somebody else's")
	seen := ask[*rest_model.AuthenticatorDetail](own, "CurrentAPISession.DetailCurrentIdentityAuthenticator", Fields{"ID": person.authenticator})
	s.ledger.Check(seen.Username == person.user, "is not the own one: %s", own.wire.body)
	own.refused(404, "NOT_FOUND", "CurrentAPISession.DetailCurrentIdentityAuthenticator", Fields{"ID": stranger.authenticator})

	put := func(of string, next string) Fields {
		return Fields{"ID": person.authenticator, "Authenticator": &rest_model.AuthenticatorUpdateWithCurrent{CurrentPassword: password(of),
			AuthenticatorUpdate: rest_model.AuthenticatorUpdate{Username: username(person.user), Password: password(next)}}}
	}
	patch := func(of string, next string) Fields {
		return Fields{"ID": person.authenticator, "Authenticator": &rest_model.AuthenticatorPatchWithCurrent{CurrentPassword: password(of),
			AuthenticatorPatch: rest_model.AuthenticatorPatch{Password: ptr(rest_model.PasswordNullable(next))}}}
	}
	update, change := "CurrentAPISession.UpdateCurrentIdentityAuthenticator", "CurrentAPISession.PatchCurrentIdentityAuthenticator"
	next := person.password + "-" + name
	own.refused(401, "UNAUTHORIZED", update, put("wrong password", next))
	own.do(update, put(person.password, next))
	guest.keptOut("password", person.auth())
	guest.login("password", withPassword(person.user, next))
	own.refused(401, "UNAUTHORIZED", change, patch(person.password, person.password))
	own.refused(400, "COULD_NOT_VALIDATE", change, Fields{"ID": person.authenticator, "Authenticator": &rest_model.AuthenticatorPatchWithCurrent{}})
	own.refused(404, "NOT_FOUND", change, Fields{"ID": stranger.authenticator, "Authenticator": patch(next, "a new password")["Authenticator"]})
	own.do(change, patch(next, person.password))
	guest.login("password", person.auth())
}

// A certificate that its owner renews: the new one is valid once it is confirmed, and then the old one becomes invalid.
func extensions(s *Stage) {
	for _, name := range both {
		person, certificate := s.enrolled(nil)
		own := s.open(name, Caller{cert: certificate}).login("cert", nil)
		id, key := s.onlyAuthenticator(person), newKey()
		extend := func(csr string) Fields {
			return Fields{"ID": id, "Extend": &rest_model.IdentityExtendEnrollmentRequest{ClientCertCsr: &csr}}
		}
		confirm := func(pem string) Fields {
			return Fields{"ID": id, "Extend": &rest_model.IdentityExtendValidateEnrollmentRequest{ClientCert: &pem}}
		}
		operation, confirmation := "CurrentAPISession.ExtendCurrentIdentityAuthenticator", "CurrentAPISession.ExtendVerifyCurrentIdentityAuthenticator"
		own.refused(400, "COULD_NOT_PROCESS_CSR", operation, extend("nonsense"))
		s.open(name, Caller{token: own.caller.token}).refused(401, "UNAUTHORIZED", operation, extend(request(key, person)))
		certs := ask[*rest_model.IdentityExtendCerts](own, operation, extend(request(key, person)))
		next, err := held(certs.ClientCert, key)
		s.ledger.Must(err == nil && certs.Ca != "", "is no certificate of the key: %v", err)

		s.open(name, Caller{cert: next}).keptOut("cert", nil)
		own.refused(400, "INVALID_CLIENT_CERT", confirmation, confirm(pemOf(certificate.Certificate[0])))
		own.do(confirmation, confirm(certs.ClientCert))
		s.open(name, Caller{cert: certificate}).keptOut("cert", nil)
		s.open(name, Caller{cert: next}).login("cert", nil).do("CurrentIdentity.GetCurrentIdentity", nil)
		notExtended(s, name, certificate, extend(request(key, person)))
	}
}

// A password cannot be extended, nor the certificate of another identity.
func notExtended(s *Stage, name string, certificate *tls.Certificate, another Fields) {
	person := s.person(nil)
	own := s.open(name, Caller{cert: certificate}).login("password", person.auth())
	own.refused(409, "CAN_NOT_UPDATE_AUTHENTICATOR", "CurrentAPISession.ExtendCurrentIdentityAuthenticator",
		Fields{"ID": person.authenticator, "Extend": another["Extend"]})
	own.refused(404, "NOT_FOUND", "CurrentAPISession.ExtendCurrentIdentityAuthenticator", another)
}
