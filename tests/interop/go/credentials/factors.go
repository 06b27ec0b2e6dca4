package main

import (
	"bytes"
	"image/png"
	"slices"

	"github.com/openziti/edge-api/rest_model"
)

// One-time codes, from setting them up to their removal, on both interfaces.
func factors(s *Stage) {
	for _, name := range both {
		person, guest := s.person(nil), s.open(name, Caller{})
		own := guest.login("password", person.auth())
		secret, codes := setUp(s, own)
		challenged(s, guest, person, secret, codes)
		recovered(s, guest, person, secret)
	}
	demanded(s)
}

func given(code string) *rest_model.MfaCode { return &rest_model.MfaCode{Code: &code} }

// setUp enrolls the caller in one-time codes and verifies the app.
func setUp(s *Stage, own *API) (Secret, []string) {
	own.refused(404, "NOT_FOUND", "CurrentIdentity.DetailMfa", nil)
	own.refused(404, "NOT_FOUND", "CurrentIdentity.DetailMfaQrCode", nil)
	own.do("CurrentIdentity.EnrollMfa", nil) // without a body, so without a media type
	s.ledger.Check(!own.wire.sentWithType, "the package names a media type")
	own.refused(409, "MFA_EXISTS", "CurrentIdentity.EnrollMfa", nil)
	begun := ask[*rest_model.DetailMfa](own, "CurrentIdentity.DetailMfa", nil)
	secret, err := secretOf(begun.ProvisioningURL)
	s.ledger.Must(err == nil && len(begun.RecoveryCodes) == 20 && !*begun.IsVerified, "is not the beginning: %v", err)
	own.do("CurrentIdentity.DetailMfaQrCode", nil)
	_, err = png.Decode(bytes.NewReader(own.wire.body))
	s.ledger.Check(err == nil && own.wire.kind == "image/png", "is no picture: %v, %s", err, own.wire.kind)

	own.refused(400, "MFA_INVALID_TOKEN", "CurrentIdentity.VerifyMfa", Fields{"MfaValidation": given(secret.wrong())})
	own.refused(400, "COULD_NOT_VALIDATE", "CurrentIdentity.VerifyMfa", Fields{"MfaValidation": &rest_model.MfaCode{}})
	own.do("CurrentIdentity.VerifyMfa", Fields{"MfaValidation": given(secret.code(0))})
	own.refused(404, "NOT_FOUND", "CurrentIdentity.VerifyMfa", Fields{"MfaValidation": given(secret.code(0))})
	done := ask[*rest_model.DetailMfa](own, "CurrentIdentity.DetailMfa", nil)
	s.ledger.Check(*done.IsVerified && done.ProvisioningURL == "" && done.RecoveryCodes == nil, "still shows the secret")
	return secret, begun.RecoveryCodes
}

// challenged logs in with both factors and reads the recovery codes.
func challenged(s *Stage, guest *API, person Person, secret Secret, codes []string) {
	session := guest.session("password", person.auth())
	s.ledger.Must(len(session.AuthQueries) == 1 && session.AuthQueries[0].TypeID == "MFA" && *session.IsMfaRequired, "asks for %v", session.AuthQueries)
	own := s.open(guest.name, Caller{token: *session.Token})
	own.refused(401, "UNAUTHORIZED", "CurrentIdentity.GetCurrentIdentity", nil)
	own.refused(401, "UNAUTHORIZED", "CurrentIdentity.DetailMfaRecoveryCodes", nil)
	own.refused(400, "MFA_INVALID_TOKEN", "Authentication.AuthenticateMfa", Fields{"MfaAuth": given(secret.wrong())})
	own.do("Authentication.AuthenticateMfa", Fields{"MfaAuth": given(secret.code(0))})
	own.do("CurrentIdentity.GetCurrentIdentity", nil)

	// The one-time code may be in a header or, as the package sends it, in the body of a GET.
	for _, with := range []Fields{{"MfaValidationCode": ptr(secret.code(0))}, {"MfaValidation": given(secret.code(0))}} {
		shown := ask[*rest_model.DetailMfaRecoveryCodes](own, "CurrentIdentity.DetailMfaRecoveryCodes", with)
		s.ledger.Check(slices.Equal(shown.RecoveryCodes, codes), "are not the codes of the beginning")
	}
	own.refused(400, "MFA_INVALID_TOKEN", "CurrentIdentity.DetailMfaRecoveryCodes", Fields{"MfaValidationCode": ptr(secret.wrong())})
	own.refused(400, "MFA_INVALID_TOKEN", "CurrentIdentity.CreateMfaRecoveryCodes", Fields{"MfaValidation": given(secret.wrong())})
	// The code that completed the session may not renew the recovery codes; the previous one was not used.
	own.do("CurrentIdentity.CreateMfaRecoveryCodes", Fields{"MfaValidation": given(secret.code(-1))})
	renewed := ask[*rest_model.DetailMfaRecoveryCodes](own, "CurrentIdentity.DetailMfaRecoveryCodes", Fields{"MfaValidationCode": ptr(secret.code(0))})
	s.ledger.Check(len(renewed.RecoveryCodes) == 20 && !slices.Contains(renewed.RecoveryCodes, codes[0]), "were not renewed")

	// A recovery code logs in once.
	code := Fields{"MfaAuth": given(renewed.RecoveryCodes[0])}
	guest.login("password", person.auth()).do("Authentication.AuthenticateMfa", code)
	guest.login("password", person.auth()).refused(400, "MFA_INVALID_TOKEN", "Authentication.AuthenticateMfa", code)
}

// recovered removes the second factor: by its owner, and by the administrator.
func recovered(s *Stage, guest *API, person Person, secret Secret) {
	own := guest.login("password", person.auth())
	own.do("Authentication.AuthenticateMfa", Fields{"MfaAuth": given(secret.code(1))})
	own.refused(400, "MFA_INVALID_TOKEN", "CurrentIdentity.DeleteMfa", nil)
	own.refused(400, "MFA_INVALID_TOKEN", "CurrentIdentity.DeleteMfa", Fields{"MfaValidationCode": ptr(secret.wrong())})
	own.do("CurrentIdentity.DeleteMfa", Fields{"MfaValidationCode": ptr(secret.code(1))})
	own.refused(404, "NOT_FOUND", "CurrentIdentity.DeleteMfa", nil)
	own.refused(404, "NOT_FOUND", "CurrentIdentity.CreateMfaRecoveryCodes", Fields{"MfaValidation": given(secret.code(0))})
	own.refused(409, "MFA_NOT_ENROLLED", "Authentication.AuthenticateMfa", Fields{"MfaAuth": given(secret.code(0))})

	own = guest.login("password", person.auth())
	setUp(s, own)
	s.admin.do("Identity.RemoveIdentityMfa", Fields{"ID": person.id})
	s.admin.refused(404, "NOT_FOUND", "Identity.RemoveIdentityMfa", Fields{"ID": "nobody"})
	s.ledger.Check(len(guest.session("password", person.auth()).AuthQueries) == 0, "still asks for a code")
}

// demanded tests a policy that requires codes from an identity without any: setting them up completes the session.
func demanded(s *Stage) {
	person := s.person(under(s.policy(func(whole *rest_model.AuthPolicyCreate) { whole.Secondary.RequireTotp = ptr(true) })))
	for _, name := range both {
		own := s.open(name, Caller{}).login("password", person.auth())
		own.refused(401, "UNAUTHORIZED", "CurrentIdentity.GetCurrentIdentity", nil)
		setUp(s, own)
		own.do("CurrentIdentity.GetCurrentIdentity", nil)
		s.admin.do("Identity.RemoveIdentityMfa", Fields{"ID": person.id})
	}
}
