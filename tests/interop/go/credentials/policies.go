package main

import "github.com/openziti/edge-api/rest_model"

// policy returns a complete auth policy that allows everything; the last argument changes it.
func policy(name string, change func(*rest_model.AuthPolicyCreate)) *rest_model.AuthPolicyCreate {
	whole := &rest_model.AuthPolicyCreate{
		Name: &name,
		Primary: &rest_model.AuthPolicyPrimary{
			Cert:   &rest_model.AuthPolicyPrimaryCert{Allowed: ptr(true), AllowExpiredCerts: ptr(false)},
			ExtJWT: &rest_model.AuthPolicyPrimaryExtJWT{Allowed: ptr(true), AllowedSigners: []string{}},
			Updb: &rest_model.AuthPolicyPrimaryUpdb{Allowed: ptr(true), LockoutDurationMinutes: ptr[int64](0), MaxAttempts: ptr[int64](0),
				MinPasswordLength: ptr[int64](5), RequireMixedCase: ptr(false), RequireNumberChar: ptr(false), RequireSpecialChar: ptr(false)},
		},
		Secondary: &rest_model.AuthPolicySecondary{RequireTotp: ptr(false)},
	}
	if change != nil {
		change(whole)
	}
	return whole
}

func (s *Stage) policy(change func(*rest_model.AuthPolicyCreate)) string {
	return s.admin.create("AuthPolicy.CreateAuthPolicy", Fields{"AuthPolicy": policy(s.fresh("policy"), change)})
}

// A changed auth policy applies from the next request on.
func policies(s *Stage) {
	id := s.policy(nil)
	refusedPolicies(s, id)
	s.ledger.Check(s.admin.lists("AuthPolicy.ListAuthPolicies", Fields{"Limit": ptr[int64](500)}, id), "lacks the policy")
	s.admin.refused(400, "INVALID_FILTER", "AuthPolicy.ListAuthPolicies", Fields{"Filter": ptr("name = ")})

	renamed := s.fresh("policy")
	s.admin.do("AuthPolicy.UpdateAuthPolicy", Fields{"ID": id, "AuthPolicy": &rest_model.AuthPolicyUpdate{
		AuthPolicyCreate: *policy(renamed, func(whole *rest_model.AuthPolicyCreate) { whole.Primary.Updb.MinPasswordLength = ptr[int64](12) })}})
	// The package always sends the list of signers, here as null, which changes nothing.
	s.admin.do("AuthPolicy.PatchAuthPolicy", Fields{"ID": id, "AuthPolicy": &rest_model.AuthPolicyPatch{Primary: &rest_model.AuthPolicyPrimaryPatch{
		ExtJWT: &rest_model.AuthPolicyPrimaryExtJWTPatch{Allowed: ptr(false)},
		Updb:   &rest_model.AuthPolicyPrimaryUpdbPatch{RequireNumberChar: ptr(true)}}}})
	s.ledger.Check(s.admin.sends(`"allowedSigners":null`), "the package sends %s", s.admin.wire.sent)
	seen := ask[*rest_model.AuthPolicyDetail](s.admin, "AuthPolicy.DetailAuthPolicy", Fields{"ID": id})
	updb := seen.Primary.Updb
	s.ledger.Check(*seen.Name == renamed && *updb.MinPasswordLength == 12 && *updb.RequireNumberChar && !*updb.RequireMixedCase &&
		!*seen.Primary.ExtJWT.Allowed && *seen.Primary.Cert.Allowed, "is not what was put and patched: %s", s.admin.wire.body)

	person := s.person(under(id))
	guest := s.open("client", Caller{})
	guest.login("password", person.auth())
	s.admin.refused(409, "CAN_NOT_DELETE_REFERENCED_ENTITY", "AuthPolicy.DeleteAuthPolicy", Fields{"ID": id})
	s.admin.do("AuthPolicy.PatchAuthPolicy", Fields{"ID": id, "AuthPolicy": &rest_model.AuthPolicyPatch{
		Primary: &rest_model.AuthPolicyPrimaryPatch{Updb: &rest_model.AuthPolicyPrimaryUpdbPatch{Allowed: ptr(false)}}}})
	guest.keptOut("password", person.auth())

	unused := s.policy(nil)
	s.admin.do("AuthPolicy.DeleteAuthPolicy", Fields{"ID": unused})
	s.admin.refused(404, "NOT_FOUND", "AuthPolicy.DetailAuthPolicy", Fields{"ID": unused})
	s.admin.refused(404, "NOT_FOUND", "AuthPolicy.DeleteAuthPolicy", Fields{"ID": unused})
}

// Invalid policies.
func refusedPolicies(s *Stage, id string) {
	taken := ask[*rest_model.AuthPolicyDetail](s.admin, "AuthPolicy.DetailAuthPolicy", Fields{"ID": id})
	half := policy("", nil)
	half.Name, half.Secondary = nil, nil // the package sends both as null
	s.admin.refused(400, "COULD_NOT_VALIDATE", "AuthPolicy.CreateAuthPolicy", Fields{"AuthPolicy": half})
	s.admin.refused(400, "COULD_NOT_VALIDATE", "AuthPolicy.CreateAuthPolicy", Fields{"AuthPolicy": policy(*taken.Name, nil)})
	s.admin.refused(404, "NOT_FOUND", "AuthPolicy.CreateAuthPolicy", Fields{"AuthPolicy": policy(s.fresh("policy"),
		func(whole *rest_model.AuthPolicyCreate) { whole.Secondary.RequireExtJWTSigner = ptr("nobody") })})
	s.admin.refused(400, "COULD_NOT_VALIDATE", "AuthPolicy.UpdateAuthPolicy",
		Fields{"ID": id, "AuthPolicy": &rest_model.AuthPolicyUpdate{AuthPolicyCreate: *half}})
	s.admin.refused(404, "NOT_FOUND", "AuthPolicy.PatchAuthPolicy", Fields{"ID": "nobody", "AuthPolicy": &rest_model.AuthPolicyPatch{Name: ptr("nobody")}})
	s.admin.refused(400, "COULD_NOT_VALIDATE", "AuthPolicy.PatchAuthPolicy", Fields{"ID": id, "AuthPolicy": &rest_model.AuthPolicyPatch{Name: ptr("Default")}})
}
