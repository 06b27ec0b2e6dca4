package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"

	"github.com/go-openapi/strfmt"
	"github.com/openziti/edge-api/rest_model"
)

const audience = "interop"

// signer is an external signer whose tokens the authority signs.
func (s *Stage) signer(authority Authority, issuer string) string {
	return s.admin.create("ExternalJWTSigner.CreateExternalJWTSigner", Fields{"ExternalJWTSigner": &rest_model.ExternalJWTSignerCreate{
		Name: ptr(s.fresh("signer")), Enabled: ptr(true), Issuer: &issuer, Audience: ptr(audience), CertPem: &authority.pem,
		ExternalAuthURL: ptr("https://login.interop/")}})
}

// Tokens of an external signer, as the first and as the second factor.
func signers(s *Stage) {
	authority, issuer := newAuthority("signer"), "https://"+s.fresh("issuer")
	id := s.signer(authority, issuer)
	refusedSigners(s, id, authority, issuer)
	s.ledger.Check(s.admin.lists("ExternalJWTSigner.ListExternalJWTSigners", Fields{"Limit": ptr[int64](500)}, id), "lacks the signer")
	guest := s.open("client", Caller{})
	s.ledger.Check(guest.lists("ExternalJWTSigner.ListExternalJWTSigners", nil, id), "lacks the signer for somebody who has not logged in")

	person := s.identity(nil)
	token := authority.token(issuer, audience, person)
	for _, name := range both {
		own := s.open(name, Caller{bearer: token}).login("ext-jwt", nil)
		session := ask[*rest_model.CurrentAPISessionDetail](own, "CurrentAPISession.GetCurrentAPISession", nil)
		s.ledger.Check(*session.IdentityID == person && *session.AuthenticatorID == "extJwtId:"+id, "is a session of %s by %s", *session.IdentityID, *session.AuthenticatorID)
		for _, wrong := range []string{newAuthority("signer").token(issuer, audience, person), authority.token("https://elsewhere", audience, person),
			authority.token(issuer, "elsewhere", person), authority.token(issuer, audience, "nobody"), "nonsense"} {
			s.open(name, Caller{bearer: wrong}).keptOut("ext-jwt", nil)
		}
	}
	changedSigner(s, id, authority, person)
	publishedKeys(s, person)
	secondFactor(s)
}

// A signer whose keys the controller fetches.
func publishedKeys(s *Stage, person string) {
	authority, issuer := newAuthority("publisher"), "https://"+s.fresh("issuer")
	published := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fail(json.NewEncoder(out).Encode(authority.keySet())) }))
	defer published.Close()
	id := s.admin.create("ExternalJWTSigner.CreateExternalJWTSigner", Fields{"ExternalJWTSigner": &rest_model.ExternalJWTSignerCreate{
		Name: ptr(s.fresh("signer")), Enabled: ptr(true), Issuer: &issuer, Audience: ptr(audience), JwksEndpoint: ptr(strfmt.URI(published.URL))}})
	seen := ask[*rest_model.ExternalJWTSignerDetail](s.admin, "ExternalJWTSigner.DetailExternalJWTSigner", Fields{"ID": id})
	s.ledger.Check(seen.JwksEndpoint.String() == published.URL && seen.CertPem == nil, "is not what was created: %s", s.admin.wire.body)
	for _, name := range both {
		s.open(name, Caller{bearer: authority.token(issuer, audience, person)}).login("ext-jwt", nil)
		s.open(name, Caller{bearer: newAuthority("publisher").token(issuer, audience, person)}).keptOut("ext-jwt", nil)
	}
}

// Invalid signers.
func refusedSigners(s *Stage, id string, authority Authority, issuer string) {
	wanted := func(change func(*rest_model.ExternalJWTSignerCreate)) Fields {
		whole := &rest_model.ExternalJWTSignerCreate{Name: ptr(s.fresh("signer")), Enabled: ptr(true), Issuer: ptr("https://" + s.fresh("issuer")),
			Audience: ptr(audience), CertPem: ptr(newAuthority("signer").pem)}
		change(whole)
		return Fields{"ExternalJWTSigner": whole}
	}
	create := "ExternalJWTSigner.CreateExternalJWTSigner"
	s.admin.refused(400, "COULD_NOT_VALIDATE", create, wanted(func(w *rest_model.ExternalJWTSignerCreate) { w.Audience = nil }))
	s.admin.refused(400, "COULD_NOT_VALIDATE", create, wanted(func(w *rest_model.ExternalJWTSignerCreate) { w.Issuer = &issuer }))
	s.admin.refused(400, "COULD_NOT_VALIDATE", create, wanted(func(w *rest_model.ExternalJWTSignerCreate) { w.CertPem = &authority.pem }))
	s.admin.refused(400, "REFERENCED_ENTITY_NOT_FOUND", create, wanted(func(w *rest_model.ExternalJWTSignerCreate) { w.CertPem = nil }))
	s.admin.refused(400, "REFERENCED_ENTITY_NOT_FOUND", create, wanted(func(w *rest_model.ExternalJWTSignerCreate) {
		w.JwksEndpoint = ptr(strfmt.URI("https://127.0.0.1:9/keys"))
	}))
	s.admin.refused(400, "INVALID_CERT_PEM", create, wanted(func(w *rest_model.ExternalJWTSignerCreate) { w.CertPem = ptr("nonsense") }))
	s.admin.refused(400, "COULD_NOT_VALIDATE", "ExternalJWTSigner.UpdateExternalJWTSigner",
		Fields{"ID": id, "ExternalJWTSigner": &rest_model.ExternalJWTSignerUpdate{Name: ptr("half")}})
	s.admin.refused(404, "NOT_FOUND", "ExternalJWTSigner.PatchExternalJWTSigner",
		Fields{"ID": "nobody", "ExternalJWTSigner": &rest_model.ExternalJWTSignerPatch{Name: ptr("nobody")}})
	s.admin.refused(404, "NOT_FOUND", "ExternalJWTSigner.DetailExternalJWTSigner", Fields{"ID": "nobody"})
}

// A signer that is changed: its old tokens are rejected.
func changedSigner(s *Stage, id string, authority Authority, person string) {
	moved, renamed := "https://"+s.fresh("issuer"), s.fresh("signer")
	s.admin.do("ExternalJWTSigner.UpdateExternalJWTSigner", Fields{"ID": id, "ExternalJWTSigner": &rest_model.ExternalJWTSignerUpdate{
		Name: &renamed, Enabled: ptr(true), Issuer: &moved, Audience: ptr(audience), CertPem: &authority.pem}})
	s.admin.do("ExternalJWTSigner.PatchExternalJWTSigner",
		Fields{"ID": id, "ExternalJWTSigner": &rest_model.ExternalJWTSignerPatch{ClaimsProperty: ptr("sub")}})
	seen := ask[*rest_model.ExternalJWTSignerDetail](s.admin, "ExternalJWTSigner.DetailExternalJWTSigner", Fields{"ID": id})
	s.ledger.Check(*seen.Name == renamed && *seen.Issuer == moved && *seen.Enabled && *seen.Fingerprint == fingerprint(authority.cert.Raw),
		"is not what was put and patched: %s", s.admin.wire.body)
	bearer := s.open("client", Caller{bearer: authority.token(moved, audience, person)})
	bearer.login("ext-jwt", nil)

	only := s.policy(func(whole *rest_model.AuthPolicyCreate) { whole.Primary.ExtJWT.AllowedSigners = []string{id} })
	s.admin.refused(409, "CAN_NOT_DELETE_REFERENCED_ENTITY", "ExternalJWTSigner.DeleteExternalJWTSigner", Fields{"ID": id})
	s.admin.do("AuthPolicy.DeleteAuthPolicy", Fields{"ID": only})
	s.admin.do("ExternalJWTSigner.PatchExternalJWTSigner",
		Fields{"ID": id, "ExternalJWTSigner": &rest_model.ExternalJWTSignerPatch{Enabled: ptr(false)}})
	bearer.keptOut("ext-jwt", nil)
	guest := s.open("client", Caller{})
	s.ledger.Check(!guest.lists("ExternalJWTSigner.ListExternalJWTSigners", nil, id), "shows a signer that is not enabled")
	s.admin.do("ExternalJWTSigner.DeleteExternalJWTSigner", Fields{"ID": id})
	s.admin.refused(404, "NOT_FOUND", "ExternalJWTSigner.DeleteExternalJWTSigner", Fields{"ID": id})
}

// A policy that requires a token with every request, in addition to the session.
func secondFactor(s *Stage) {
	authority, issuer := newAuthority("second"), "https://"+s.fresh("issuer")
	id := s.signer(authority, issuer)
	person := s.person(under(s.policy(func(whole *rest_model.AuthPolicyCreate) { whole.Secondary.RequireExtJWTSigner = &id })))
	for _, name := range both {
		session := s.open(name, Caller{}).session("password", person.auth())
		s.ledger.Must(len(session.AuthQueries) == 1 && session.AuthQueries[0].TypeID == "EXT-JWT", "asks for %v", session.AuthQueries)
		half := s.open(name, Caller{token: *session.Token})
		half.refused(401, "UNAUTHORIZED", "CurrentIdentity.GetCurrentIdentity", nil)
		whole := s.open(name, Caller{token: *session.Token, bearer: authority.token(issuer, audience, person.id)})
		whole.do("CurrentIdentity.GetCurrentIdentity", nil)
		other := s.open(name, Caller{token: *session.Token, bearer: authority.token(issuer, audience, s.identity(nil))})
		other.refused(401, "UNAUTHORIZED", "CurrentIdentity.GetCurrentIdentity", nil)
	}
}
