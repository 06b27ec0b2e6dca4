//! Third-party certificate authorities, whose certificates enroll and log in identities.

use pki::{self, Certificate};
use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Amount, Entity, ExternalIdClaim, Field, Id, Kind, Logged, Lookup, Record, Roles, Stateful,
    external_id_claim::{ClaimLocation, ClaimMatcher},
    unmatchable::Unmatchable,
    value::other_certificate,
};
use crate::error::{Error, Result};

/// The default name format of identities that enroll automatically.
const NAME_FORMAT: &str = "[caName]-[commonName]";

/// A third-party certificate authority.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ca {
    pub name: String,
    /// Its certificate as PEM, which may be followed by further certificates of its own. It cannot
    /// be changed.
    pub cert_pem: String,
    /// Whether its certificates may log in.
    pub is_auth_enabled: bool,
    /// Whether the holder of one of its certificates can enroll automatically as a new identity.
    pub is_auto_ca_enrollment_enabled: bool,
    /// Whether its certificates complete enrollments of the method `ottca`.
    pub is_ott_ca_enrollment_enabled: bool,
    /// Role attributes of identities that enroll automatically.
    #[schemars(extend("examples" = [["partners"]]))]
    pub identity_roles: Roles,
    /// The name format of these, with the placeholders `[caName]`, `[caId]`, `[commonName]`,
    /// `[requestedName]` and `[identityId]`.
    #[serde(default)]
    pub identity_name_format: String,
    /// Where a certificate holds the `externalId` of its identity; without it, only fingerprints
    /// are compared.
    #[serde(default)]
    #[schemars(with = "ExternalIdClaim")]
    pub external_id_claim: Option<ExternalIdClaim>,
}

impl Ca {
    /// Its certificates. The first one identifies the authority; each of them verifies
    /// certificates.
    ///
    /// # Errors
    /// The PEM text is not a list of certificates.
    pub fn certificates(&self) -> pki::Result<Vec<Certificate>> {
        Certificate::bundle(&self.cert_pem)
    }

    /// The name of an identity with this id that enrolls automatically; `requested` is the name
    /// that the client asked for.
    pub fn name_for(
        &self,
        ca: &Id<Self>,
        identity: &str,
        certificate: &Certificate,
        requested: Option<&str>,
    ) -> String {
        let common_name = certificate.subject().common_name().unwrap_or_default();
        let filled = [
            ("[caName]", self.name.as_str()),
            ("[caId]", ca.as_str()),
            ("[identityId]", identity),
            ("[commonName]", common_name.as_str()),
            ("[requestedName]", requested.unwrap_or(identity)),
        ];
        let name = filled
            .into_iter()
            .fold(self.identity_name_format.clone(), |name, (place, text)| {
                name.replace(place, text)
            });
        if name.trim().is_empty() {
            identity.to_owned()
        } else {
            name
        }
    }
}

/// The part of a record that only code sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The fingerprint of the first certificate.
    pub fingerprint: String,
    /// Whether its owner has proven to hold the key.
    pub is_verified: bool,
    /// The common name required of the certificate that proves it.
    pub verification_token: String,
}

impl Record<Ca> {
    /// Whether its certificates may log in.
    pub fn lets_in(&self) -> bool {
        self.spec.is_auth_enabled && self.state.is_verified
    }

    /// Whether a claim in its certificates may log in.
    pub fn lets_in_by_claim(&self) -> bool {
        self.lets_in() && self.spec.external_id_claim.is_some()
    }
}

/// A CA in responses to administrators.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CaDetail")]
pub struct View {
    name: String,
    cert_pem: String,
    fingerprint: String,
    is_verified: bool,
    /// The common name of the certificate that verifies the authority; blank for an API token that
    /// may not create authorities.
    verification_token: String,
    is_auth_enabled: bool,
    is_auto_ca_enrollment_enabled: bool,
    is_ott_ca_enrollment_enabled: bool,
    identity_roles: Roles,
    identity_name_format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id_claim: Option<ExternalIdClaim>,
}

impl Stateful for Ca {
    type State = State;
}

impl Entity for Ca {
    const KIND: Kind = Kind {
        name: "ca",
        path: "cas",
        noun: "certificate authority",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::unique("fingerprint", Type::Text, |r| (&r.state.fingerprint).into()),
        Field::plain("isVerified", Type::Bool, |r| r.state.is_verified.into()),
        Field::plain("verificationToken", Type::Text, |r| {
            (&r.state.verification_token).into()
        }),
        Field::plain("isAutoCaEnrollmentEnabled", Type::Bool, |r| {
            r.spec.is_auto_ca_enrollment_enabled.into()
        }),
        Field::plain("isOttCaEnrollmentEnabled", Type::Bool, |r| {
            r.spec.is_ott_ca_enrollment_enabled.into()
        }),
        Field::plain("isAuthEnabled", Type::Bool, |r| {
            r.spec.is_auth_enabled.into()
        }),
    ];
    const FIXED: &'static [&'static str] = &["certPem"];
    const REQUIRED_ON_REPLACE: &'static [&'static str] = &["identityNameFormat"];
    const LOGGED: Logged = Logged::Changes {
        secret: &["/verificationToken"],
        quiet: &[],
    };
    type View = View;

    fn tidy(&mut self) {
        if self.identity_name_format.trim().is_empty() {
            self.identity_name_format = NAME_FORMAT.into();
        }
    }

    fn check(&self, _: &dyn Lookup) -> Result<()> {
        let roles = self.identity_roles.check_attributes().map_err(|e| match e {
            Error::Invalid { reason, value, .. } => Error::invalid("identityRoles", reason, value),
            other => other,
        });
        let Some(claim) = &self.external_id_claim else {
            return roles;
        };
        let is_negative = claim.index < 0;
        let no_scheme =
            claim.matcher == ClaimMatcher::Scheme && claim.location != ClaimLocation::SanUri;
        let negative = || {
            Error::invalid(
                "externalIdClaim.index",
                "must not be negative",
                claim.index.to_string(),
            )
        };
        Error::all([
            roles,
            if is_negative { Err(negative()) } else { Ok(()) },
            if no_scheme {
                Err(Error::BadReference(
                    "externalIdClaim: only a SAN_URI has a scheme to match".into(),
                ))
            } else {
                Ok(())
            },
        ])
    }

    fn unmatchable(&self) -> Vec<Unmatchable> {
        self.external_id_claim
            .iter()
            .flat_map(ExternalIdClaim::unmatchable)
            .collect()
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![("identityRoles", self.identity_roles.amount())]
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        other_certificate(&record.state.fingerprint, &record.spec.cert_pem)
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let (spec, state) = (record.spec.clone(), record.state.clone());
        Ok(View {
            name: spec.name,
            cert_pem: spec.cert_pem,
            fingerprint: state.fingerprint,
            is_verified: state.is_verified,
            verification_token: state.verification_token,
            is_auth_enabled: spec.is_auth_enabled,
            is_auto_ca_enrollment_enabled: spec.is_auto_ca_enrollment_enabled,
            is_ott_ca_enrollment_enabled: spec.is_ott_ca_enrollment_enabled,
            identity_roles: spec.identity_roles,
            identity_name_format: spec.identity_name_format,
            external_id_claim: spec.external_id_claim,
        })
    }

    fn links(record: &Record<Self>) -> Vec<(&'static str, String)> {
        let verify = (!record.state.is_verified).then_some("verify");
        let jwt = record.spec.is_auto_ca_enrollment_enabled.then_some("jwt");
        verify
            .into_iter()
            .chain(jwt)
            .map(|name| (name, format!("cas/{}/{name}", record.id)))
            .collect()
    }
}
