//! Certificate authorities of others, whose certificates enroll and log in identities.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Entity, Facts, Field, Kind, Record, Roles};
use crate::{
    error::{Error, Result},
    query::Type,
};

/// How identities are called that enroll by themselves, unless the CA says otherwise.
const NAME_FORMAT: &str = "[caName]-[commonName]";

/// A certificate authority of somebody else.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ca {
    pub name: String,
    /// Its certificate, and others of its own behind it, as PEM. Set once.
    pub cert_pem: String,
    /// Whether its certificates log in.
    pub is_auth_enabled: bool,
    /// Whether whoever holds one of its certificates becomes an identity by itself.
    pub is_auto_ca_enrollment_enabled: bool,
    /// Whether its certificates complete enrollments of the method `ottca`.
    pub is_ott_ca_enrollment_enabled: bool,
    /// Role attributes of identities that enroll by themselves.
    pub identity_roles: Roles,
    /// How these are called, with `[caName]`, `[caId]`, `[commonName]`, `[requestedName]` and `[identityId]` filled in.
    #[serde(default)]
    pub identity_name_format: String,
    /// Where in a certificate the `externalId` of its identity stands; without it, only fingerprints are looked at.
    #[serde(default)]
    #[schemars(with = "ExternalIdClaim")]
    pub external_id_claim: Option<ExternalIdClaim>,
}

/// Where in a certificate an external id stands: candidates from `location`, those that `matcher` lets pass, what `parser` makes
/// of them, and of that the element at `index`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalIdClaim {
    #[schemars(schema_with = "nullable::<ClaimLocation>")]
    pub location: ClaimLocation,
    #[schemars(schema_with = "nullable::<ClaimMatcher>")]
    pub matcher: ClaimMatcher,
    #[schemars(schema_with = "nullable::<String>")]
    pub matcher_criteria: String,
    #[schemars(schema_with = "nullable::<ClaimParser>")]
    pub parser: ClaimParser,
    #[schemars(schema_with = "nullable::<String>")]
    pub parser_criteria: String,
    /// Counted from 0.
    #[schemars(schema_with = "nullable::<i64>")]
    pub index: i64,
}

/// The part of a certificate that holds candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimLocation {
    CommonName,
    SanUri,
    SanEmail,
}

/// Which candidates pass. `PREFIX` and `SUFFIX` are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimMatcher {
    All,
    Prefix,
    Suffix,
    Scheme,
}

/// Whether a candidate counts as one, or as several with a separator in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimParser {
    None,
    Split,
}

/// What only code sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Of the first certificate.
    pub fingerprint: String,
    /// Whether its owner has shown to hold the key.
    pub is_verified: bool,
    /// The common name of the certificate that shows it.
    pub verification_token: String,
}

/// A CA as administrators see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CaDetail")]
pub struct View {
    name: String,
    cert_pem: String,
    fingerprint: String,
    is_verified: bool,
    verification_token: String,
    is_auth_enabled: bool,
    is_auto_ca_enrollment_enabled: bool,
    is_ott_ca_enrollment_enabled: bool,
    identity_roles: Roles,
    identity_name_format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id_claim: Option<ExternalIdClaim>,
}

impl Entity for Ca {
    const KIND: Kind = Kind { name: "ca", path: "cas" };
    const FIELDS: &'static [Field<Self>] = &[
        Field::unique("name", Type::Text, |r| (&r.spec.name).into()),
        Field::unique("fingerprint", Type::Text, |r| (&r.state.fingerprint).into()),
        Field::plain("isVerified", Type::Bool, |r| r.state.is_verified.into()),
        Field::plain("verificationToken", Type::Text, |r| (&r.state.verification_token).into()),
        Field::plain("isAutoCaEnrollmentEnabled", Type::Bool, |r| r.spec.is_auto_ca_enrollment_enabled.into()),
        Field::plain("isOttCaEnrollmentEnabled", Type::Bool, |r| r.spec.is_ott_ca_enrollment_enabled.into()),
        Field::plain("isAuthEnabled", Type::Bool, |r| r.spec.is_auth_enabled.into()),
    ];
    const FIXED: &'static [&'static str] = &["certPem"];
    type State = State;
    type View = View;

    fn tidy(&mut self) {
        if self.identity_name_format.trim().is_empty() {
            self.identity_name_format = NAME_FORMAT.into();
        }
    }

    fn check(&self, _: &dyn Facts) -> Result<()> {
        self.identity_roles.check_attributes().map_err(|e| match e {
            Error::Invalid { reason, value, .. } => Error::invalid("identityRoles", reason, value),
            other => other,
        })?;
        let Some(claim) = &self.external_id_claim else { return Ok(()) };
        if claim.index < 0 {
            return Err(Error::invalid("externalIdClaim.index", "must not be negative", claim.index.to_string()));
        }
        if claim.matcher == ClaimMatcher::Scheme && claim.location != ClaimLocation::SanUri {
            return Err(Error::BadReference("externalIdClaim: only a SAN_URI has a scheme to match".into()));
        }
        Ok(())
    }

    fn view(record: &Record<Self>, _: &dyn Facts) -> Result<View> {
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
        verify.into_iter().chain(jwt).map(|name| (name, format!("cas/{}/{name}", record.id))).collect()
    }
}

/// The schema of a member that is required although null may stand there, which then counts as missing.
fn nullable<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    if let Some(of) = schema.remove("type") {
        schema.insert("type".into(), vec![of, "null".into()].into());
    }
    if let Some(Json::Array(words)) = schema.get_mut("enum") {
        words.push(Json::Null);
    }
    schema
}
