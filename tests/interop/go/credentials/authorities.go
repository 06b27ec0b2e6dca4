package main

import (
	"crypto/tls"
	"strings"

	"github.com/openziti/edge-api/rest_model"
)

// authority creates a verified authority with all features enabled.
func (s *Stage) authority() (string, Authority) {
	authority := newAuthority(s.fresh("authority"))
	id := s.admin.create("CertificateAuthority.CreateCa", Fields{"Ca": wantedCa(s.fresh("authority"), authority.pem)})
	s.verify(id, authority)
	return id, authority
}

func wantedCa(name, pem string) *rest_model.CaCreate {
	return &rest_model.CaCreate{Name: &name, CertPem: &pem, IdentityRoles: rest_model.Roles{"b", "a"}, IdentityNameFormat: "[commonName]",
		IsAuthEnabled: ptr(true), IsAutoCaEnrollmentEnabled: ptr(true), IsOttCaEnrollmentEnabled: ptr(true)}
}

func (s *Stage) verify(id string, authority Authority) {
	seen := ask[*rest_model.CaDetail](s.admin, "CertificateAuthority.DetailCa", Fields{"ID": id})
	proof := authority.issue(string(seen.VerificationToken))
	s.admin.do("CertificateAuthority.VerifyCa", Fields{"ID": id, "Certificate": pemOf(proof.Certificate[0])})
}

// A third-party certificate authority: from its creation to the last log-in with one of its certificates.
func authorities(s *Stage) {
	authority, name := newAuthority("third party"), s.fresh("authority")
	id := s.admin.create("CertificateAuthority.CreateCa", Fields{"Ca": wantedCa(name, authority.pem)})
	refusedAuthorities(s, id, name, authority)
	s.ledger.Check(s.admin.lists("CertificateAuthority.ListCas", Fields{"Limit": ptr[int64](500)}, id), "lacks the authority")
	s.ledger.Check(strings.Count(ask[string](s.admin, "CertificateAuthority.GetCaJWT", Fields{"ID": id}), ".") == 2, "is no token: %s", s.admin.wire.body)

	stranger := s.open("client", Caller{cert: authority.issue("early")})
	stranger.refused(400, "CERT_FAILED_VALIDATION", "Enroll.EnrollCa", nil) // not verified yet
	s.verify(id, authority)
	verified := ask[*rest_model.CaDetail](s.admin, "CertificateAuthority.DetailCa", Fields{"ID": id})
	s.ledger.Check(*verified.IsVerified && *verified.Fingerprint == fingerprint(authority.cert.Raw), "is not the verified authority: %s", s.admin.wire.body)
	s.admin.refused(409, "CA_ALREADY_VERIFIED", "CertificateAuthority.VerifyCa", Fields{"ID": id, "Certificate": authority.pem})

	changedAuthority(s, id)
	enrolled := enrolledByAuthority(s, id, authority)
	madeByHand(s, authority)
	s.admin.do("CertificateAuthority.DeleteCa", Fields{"ID": id})
	s.admin.refused(404, "NOT_FOUND", "CertificateAuthority.DetailCa", Fields{"ID": id})
	s.admin.refused(404, "NOT_FOUND", "CertificateAuthority.DeleteCa", Fields{"ID": id})
	for _, certificate := range enrolled {
		s.open("client", Caller{cert: certificate}).keptOut("cert", nil)
	}
}

// Certificates that are not an authority, and invalid proofs.
func refusedAuthorities(s *Stage, id, name string, authority Authority) {
	leaf := authority.issue("leaf")
	s.admin.refused(400, "COULD_NOT_VALIDATE", "CertificateAuthority.CreateCa", Fields{"Ca": wantedCa(name, newAuthority("other").pem)})
	s.admin.refused(400, "COULD_NOT_VALIDATE", "CertificateAuthority.CreateCa", Fields{"Ca": wantedCa(s.fresh("authority"), authority.pem)})
	s.admin.refused(400, "COULD_NOT_VALIDATE", "CertificateAuthority.CreateCa", Fields{"Ca": &rest_model.CaCreate{CertPem: ptr(newAuthority("other").pem)}})
	s.admin.refused(400, "CERTIFICATE_IS_NOT_CA", "CertificateAuthority.CreateCa", Fields{"Ca": wantedCa(s.fresh("authority"), pemOf(leaf.Certificate[0]))})
	verify := func(code, proof string) {
		s.admin.refused(400, code, "CertificateAuthority.VerifyCa", Fields{"ID": id, "Certificate": proof})
	}
	seen := ask[*rest_model.CaDetail](s.admin, "CertificateAuthority.DetailCa", Fields{"ID": id})
	s.ledger.Check(!*seen.IsVerified && *seen.Name == name && len(seen.IdentityRoles) == 2, "is not what was created: %s", s.admin.wire.body)
	verify("INVALID_COMMON_NAME", pemOf(leaf.Certificate[0]))
	verify("CERTIFICATE_FAILED_VALIDATION", pemOf(newAuthority("other").issue(string(seen.VerificationToken)).Certificate[0]))
	verify("COULD_NOT_PARSE_BODY", "nonsense")
	s.admin.refused(404, "NOT_FOUND", "CertificateAuthority.VerifyCa", Fields{"ID": "nobody", "Certificate": authority.pem})
	s.admin.refused(404, "NOT_FOUND", "CertificateAuthority.GetCaJWT", Fields{"ID": "nobody"})
}

// PUT and PATCH. A PATCH of the package always contains the roles, here as null, which leaves them unchanged.
func changedAuthority(s *Stage, id string) {
	renamed := s.fresh("authority")
	claim := &rest_model.ExternalIDClaim{Index: ptr[int64](0), Location: ptr("SAN_EMAIL"), Matcher: ptr("ALL"), MatcherCriteria: ptr(""),
		Parser: ptr("NONE"), ParserCriteria: ptr("")}
	whole := &rest_model.CaUpdate{Name: &renamed, IdentityNameFormat: ptr("[caName] [commonName]"), IdentityRoles: rest_model.Roles{"c", "d"},
		IsAuthEnabled: ptr(true), IsAutoCaEnrollmentEnabled: ptr(true), IsOttCaEnrollmentEnabled: ptr(true), ExternalIDClaim: claim}
	s.admin.do("CertificateAuthority.UpdateCa", Fields{"ID": id, "Ca": whole})
	s.admin.do("CertificateAuthority.PatchCa", Fields{"ID": id, "Ca": &rest_model.CaPatch{IdentityNameFormat: ptr("[commonName]"),
		ExternalIDClaim: &rest_model.ExternalIDClaimPatch{ParserCriteria: ptr(",")}}})
	s.ledger.Check(s.admin.sends(`"identityRoles":null`), "the package sends %s", s.admin.wire.sent)
	seen := ask[*rest_model.CaDetail](s.admin, "CertificateAuthority.DetailCa", Fields{"ID": id})
	s.ledger.Check(*seen.Name == renamed && *seen.IdentityNameFormat == "[commonName]" && strings.Join(seen.IdentityRoles, " ") == "c d" && *seen.IsVerified &&
		seen.ExternalIDClaim != nil && *seen.ExternalIDClaim.Location == "SAN_EMAIL" && *seen.ExternalIDClaim.ParserCriteria == ",",
		"is not what was put and patched: %s", s.admin.wire.body)
	s.admin.refused(400, "COULD_NOT_VALIDATE", "CertificateAuthority.UpdateCa", Fields{"ID": id, "Ca": &rest_model.CaUpdate{Name: &renamed}})
	s.admin.refused(400, "COULD_NOT_VALIDATE", "CertificateAuthority.PatchCa",
		Fields{"ID": id, "Ca": &rest_model.CaPatch{ExternalIDClaim: &rest_model.ExternalIDClaimPatch{Location: ptr("nowhere")}}})
	s.admin.refused(404, "NOT_FOUND", "CertificateAuthority.PatchCa", Fields{"ID": "nobody", "Ca": &rest_model.CaPatch{Name: ptr("nobody")}})
	whole.ExternalIDClaim = nil
	s.admin.do("CertificateAuthority.UpdateCa", Fields{"ID": id, "Ca": whole})
}

// Enrollment with a certificate of the authority alone, and with a token; each by its own operation and by the one for all methods.
func enrolledByAuthority(s *Stage, id string, authority Authority) []*tls.Certificate {
	auto, generic := authority.issue(s.fresh("person")), authority.issue(s.fresh("person"))
	own := s.open("client", Caller{cert: auto})
	own.do("Enroll.EnrollCa", nil) // without a body, so without a media type
	s.ledger.Check(!own.wire.sentWithType, "the package names a media type")
	own.refused(409, "CERT_IN_USE", "Enroll.EnrollCa", nil)
	s.open("client", Caller{cert: generic}).do("Enroll.Enroll", Fields{"Method": ptr("ca")})
	s.open("client", Caller{}).refused(400, "CERT_FAILED_VALIDATION", "Enroll.EnrollCa", nil)

	enrolled := []*tls.Certificate{auto, generic}
	for _, operation := range []string{"Enroll.EnrollOttCa", "Enroll.Enroll"} {
		certificate := authority.issue(s.fresh("person"))
		person := s.identity(func(wanted *rest_model.IdentityCreate) {
			wanted.Enrollment = &rest_model.IdentityCreateEnrollment{Ottca: id}
		})
		token := s.outstanding(person).token()
		with := Fields{"Method": ptr("ottca"), "Token": ptr(token)}
		if operation == "Enroll.EnrollOttCa" {
			with = Fields{"OttEnrollmentRequest": &rest_model.OttEnrollmentRequest{Token: string(token)}}
		}
		s.open("client", Caller{cert: newAuthority("other").issue("stranger")}).refused(400, "CERT_FAILED_VALIDATION", operation, with)
		s.open("client", Caller{cert: certificate}).do(operation, with)
		enrolled = append(enrolled, certificate)
	}
	for _, certificate := range enrolled {
		for _, name := range both {
			s.open(name, Caller{cert: certificate}).login("cert", nil).do("CurrentIdentity.GetCurrentIdentity", nil)
		}
	}
	return enrolled
}

// A certificate that the administrator adds.
func madeByHand(s *Stage, authority Authority) {
	certificate, person := authority.issue("by hand"), s.identity(nil)
	with := func(pem string) Fields {
		return Fields{"Authenticator": &rest_model.AuthenticatorCreate{Method: ptr("cert"), IdentityID: &person, CertPem: pem}}
	}
	s.admin.refused(400, "COULD_NOT_PARSE_PEM_BLOCK", "Authenticator.CreateAuthenticator", with("nonsense"))
	s.admin.do("Authenticator.CreateAuthenticator", with(pemOf(certificate.Certificate[0])))
	id := s.onlyAuthenticator(person)
	seen := ask[*rest_model.AuthenticatorDetail](s.admin, "Authenticator.DetailAuthenticator", Fields{"ID": id})
	s.ledger.Check(*seen.Method == "cert" && seen.Fingerprint == fingerprint(certificate.Certificate[0]), "is another certificate: %s", s.admin.wire.body)
	s.admin.refused(409, "CAN_NOT_UPDATE_AUTHENTICATOR", "Authenticator.UpdateAuthenticator",
		Fields{"ID": id, "Authenticator": &rest_model.AuthenticatorUpdate{Username: ptr(rest_model.Username("somebody")), Password: ptr(rest_model.Password("some password"))}})
	own := s.open("client", Caller{cert: certificate}).login("cert", nil)
	s.admin.create("Authenticator.ReEnrollAuthenticator", Fields{"ID": id, "ReEnroll": &rest_model.ReEnroll{ExpiresAt: in(1)}})
	own.dead()
	again := s.outstanding(person)
	s.ledger.Check(*again.Method == "ottca", "leaves an enrollment by %s", *again.Method)
	s.open("client", Caller{cert: authority.issue("by hand again")}).do("Enroll.EnrollOttCa",
		Fields{"OttEnrollmentRequest": &rest_model.OttEnrollmentRequest{Token: *again.Token}})
}
