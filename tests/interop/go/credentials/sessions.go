package main

import (
	"strings"

	"github.com/openziti/edge-api/rest_model"
)

// The operations that need no session.
func information(s *Stage) {
	for _, name := range both {
		guest := s.open(name, Caller{})
		for _, operation := range []string{"Informational.ListRoot", "Informational.ListVersion"} {
			version := ask[*rest_model.Version](guest, operation, nil)
			path := "/edge/" + name + "/v1"
			s.ledger.Check(version.APIVersions["edge-"+name]["v1"].Path != nil && *version.APIVersions["edge-"+name]["v1"].Path == path,
				"does not say that this interface is at %s", path)
			s.ledger.Check(version.Version != "", "says no version")
		}
		ask[[]rest_model.Capabilities](guest, "Informational.ListEnumeratedCapabilities", nil)
		specs := ask[rest_model.SpecList](guest, "Informational.ListSpecs", nil)
		s.ledger.Must(len(specs) > 0, "there are no descriptions")
		detail := ask[*rest_model.SpecDetail](guest, "Informational.DetailSpec", Fields{"ID": *specs[0].ID})
		s.ledger.Check(*detail.ID == *specs[0].ID, "is the description %s, should be %s", *detail.ID, *specs[0].ID)
		guest.do("Informational.DetailSpecBody", Fields{"ID": *specs[0].ID})
		s.ledger.Check(strings.Contains(string(guest.wire.body), "/current-identity"), "is no description")

		store := ask[string](guest, "WellKnown.ListWellKnownCas", nil)
		s.ledger.Check(len(store) > 0 && guest.wire.kind == "application/pkcs7-mime", "is a %s", guest.wire.kind)

		known := ask[rest_model.ControllersList](s.open(name, s.admin.caller), "Controllers.ListControllers", nil)
		s.ledger.Check(known != nil, "the list is null")
		guest.refused(401, "UNAUTHORIZED", "Controllers.ListControllers", nil)
	}
	s.open("client", Caller{}).do("Informational.ListProtocols", nil)
	s.admin.do("Informational.ListSummary", nil)
}

// A session from the log-in to its end, and the administrator's view of it.
func sessions(s *Stage) {
	person := s.person(nil)
	for _, name := range both {
		guest := s.open(name, Caller{})
		wrong := withPassword(person.user, "wrong-"+person.password)
		guest.keptOut("password", wrong)
		guest.keptOut("password", withPassword("nobody", person.password))
		guest.keptOut("cert", nil)
		guest.keptOut("ext-jwt", nil)
		guest.refused(400, "COULD_NOT_VALIDATE", "Authentication.Authenticate", Fields{"Method": "guess", "Auth": person.auth()})

		with := person.auth()
		with.ConfigTypes = rest_model.ConfigTypes{"all"}
		with.EnvInfo, with.SdkInfo = &rest_model.EnvInfo{Os: "linux", Arch: "amd64"}, &rest_model.SdkInfo{Type: "interop", AppID: "credentials"}
		opened := guest.session("password", with)
		s.ledger.Check(*opened.IdentityID == person.id && *opened.AuthenticatorID == person.authenticator,
			"is a session of %s by %s", *opened.IdentityID, *opened.AuthenticatorID)
		own := s.open(name, Caller{token: *opened.Token})
		shown := ask[*rest_model.CurrentAPISessionDetail](own, "CurrentAPISession.GetCurrentAPISession", nil)
		s.ledger.Check(*shown.ID == *opened.ID && len(shown.AuthQueries) == 0 && *shown.ExpirationSeconds > 0, "is not the session: %s", own.wire.body)
		self := ask[*rest_model.IdentityDetail](own, "CurrentIdentity.GetCurrentIdentity", nil)
		s.ledger.Check(*self.ID == person.id && self.SdkInfo.Type == "interop", "is not who logged in: %s", own.wire.body)

		s.ledger.Check(s.admin.lists("APISession.ListAPISessions", Fields{"Filter": ptr(`identity="` + person.id + `"`)}, *opened.ID), "lacks a session")
		detail := ask[*rest_model.APISessionDetail](s.admin, "APISession.DetailAPISessions", Fields{"ID": *opened.ID})
		s.ledger.Check(*detail.IdentityID == person.id, "is a session of %s", *detail.IdentityID)
		s.admin.do("APISession.DeleteAPISessions", Fields{"ID": *opened.ID})
		own.dead()
		s.admin.refused(404, "NOT_FOUND", "APISession.DetailAPISessions", Fields{"ID": *opened.ID})
		s.admin.refused(404, "NOT_FOUND", "APISession.DeleteAPISessions", Fields{"ID": *opened.ID})

		own = guest.login("password", person.auth())
		own.do("CurrentAPISession.DeleteCurrentAPISession", nil)
		own.dead()
		guest.refused(401, "UNAUTHORIZED", "CurrentIdentity.GetCurrentIdentity", nil)
	}
	own := s.open("management", Caller{}).login("password", person.auth())
	own.refused(401, "UNAUTHORIZED", "APISession.ListAPISessions", nil)
	s.admin.refused(400, "INVALID_FILTER", "APISession.ListAPISessions", Fields{"Filter": ptr("identity = ")})
	sessionCertificates(s, person)
	disabling(s, person)
}

// The certificates of a session, and other operations of the client interface only.
func sessionCertificates(s *Stage, person Person) {
	own, other := s.open("client", Caller{}).login("password", person.auth()), s.open("client", Caller{}).login("password", person.auth())
	wanted := func(text string) Fields {
		return Fields{"SessionCertificate": &rest_model.CurrentAPISessionCertificateCreate{Csr: &text}}
	}
	key := newKey()
	made := ask[*rest_model.CurrentAPISessionCertificateCreateResponse](own, "CurrentAPISession.CreateCurrentAPISessionCertificate", wanted(request(key, person.id)))
	certificate, err := held(*made.Certificate, key)
	s.ledger.Must(err == nil && made.Cas != "", "is no certificate of the key: %v", err)
	own.refused(400, "COULD_NOT_PROCESS_CSR", "CurrentAPISession.CreateCurrentAPISessionCertificate", wanted("nonsense"))
	own.refused(400, "COULD_NOT_VALIDATE", "CurrentAPISession.CreateCurrentAPISessionCertificate",
		Fields{"SessionCertificate": &rest_model.CurrentAPISessionCertificateCreate{}}) // sends null
	s.ledger.Check(own.lists("CurrentAPISession.ListCurrentAPISessionCertificates", nil, made.ID), "lacks the certificate")
	s.ledger.Check(!other.lists("CurrentAPISession.ListCurrentAPISessionCertificates", nil, made.ID), "shows another session's certificate")
	detail := ask[*rest_model.CurrentAPISessionCertificateDetail](own, "CurrentAPISession.DetailCurrentAPISessionCertificate", Fields{"ID": made.ID})
	s.ledger.Check(*detail.Fingerprint == fingerprint(certificate.Certificate[0]), "has the fingerprint %s", *detail.Fingerprint)
	other.refused(404, "NOT_FOUND", "CurrentAPISession.DetailCurrentAPISessionCertificate", Fields{"ID": made.ID})
	own.do("CurrentAPISession.DeleteCurrentAPISessionCertificate", Fields{"ID": made.ID})
	own.refused(404, "NOT_FOUND", "CurrentAPISession.DetailCurrentAPISessionCertificate", Fields{"ID": made.ID})
	own.do("CurrentAPISession.ListServiceUpdates", nil)
	own.do("CurrentIdentity.GetCurrentIdentityEdgeRouters", nil)
}

// Disabling an identity ends all its sessions and credentials at once.
func disabling(s *Stage, person Person) {
	guest := s.open("client", Caller{})
	own := guest.login("password", person.auth())
	s.admin.refused(400, "COULD_NOT_VALIDATE", "Identity.DisableIdentity", Fields{"ID": person.id, "Disable": &rest_model.DisableParams{}})
	s.admin.do("Identity.DisableIdentity", Fields{"ID": person.id, "Disable": &rest_model.DisableParams{DurationMinutes: ptr[int64](0)}})
	own.dead()
	guest.keptOut("password", person.auth())
	s.admin.do("Identity.EnableIdentity", Fields{"ID": person.id})
	guest.login("password", person.auth())
	s.admin.refused(404, "NOT_FOUND", "Identity.EnableIdentity", Fields{"ID": "nobody"})
}
