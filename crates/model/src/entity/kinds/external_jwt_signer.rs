//! External JWT signers: third parties whose tokens log in identities.

use query::{Type, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::entity::{
    Entity, Field, Kind, Lookup, Record, Stateful, Stored, kind::unreadable,
    unmatchable::Unmatchable, value::other_certificate,
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// A third party whose tokens log in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalJwtSigner {
    /// The required `aud` of its tokens.
    #[schemars(schema_with = "nullable")]
    pub audience: String,
    /// Whether its tokens are accepted.
    pub enabled: bool,
    /// The `iss` of its tokens.
    pub issuer: String,
    pub name: String,
    /// The certificate with the signing key, as PEM. Set either this or `jwksEndpoint`.
    #[serde(default)]
    #[schemars(extend("examples" = [null]))]
    pub cert_pem: Option<String>,
    /// The URL of its key set. Set either this or `certPem`.
    #[serde(default)]
    #[schemars(extend("format" = "uri"))]
    pub jwks_endpoint: Option<String>,
    /// The `kid` of its tokens; if empty, the fingerprint of the certificate.
    #[serde(default)]
    #[schemars(extend("examples" = [null]))]
    pub kid: Option<String>,
    /// The claim that names the identity; if empty, `sub`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub claims_property: String,
    /// Whether that claim holds the `externalId` of the identity rather than its id.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub use_external_id: bool,
    /// Where a person gets a token.
    #[serde(default)]
    #[schemars(extend("format" = "url"))]
    pub external_auth_url: Option<String>,
    /// The client id of programs at the issuer (RFC 6749 section 2.2).
    #[serde(default)]
    pub client_id: Option<String>,
    /// The scopes that programs request from the issuer (RFC 6749 section 3.3).
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub scopes: Vec<String>,
    /// Which of the issued tokens logs in.
    #[serde(default)]
    #[schemars(with = "Option<TargetToken>")]
    pub target_token: TargetToken,
}

/// A token that an OpenID provider issues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum TargetToken {
    #[default]
    Access,
    Id,
}

/// The spec as stored in version 1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecBeforeClients {
    audience: String,
    enabled: bool,
    issuer: String,
    name: String,
    cert_pem: Option<String>,
    jwks_endpoint: Option<String>,
    kid: Option<String>,
    claims_property: String,
    use_external_id: bool,
    external_auth_url: Option<String>,
}

impl From<SpecBeforeClients> for ExternalJwtSigner {
    fn from(old: SpecBeforeClients) -> Self {
        Self {
            audience: old.audience,
            enabled: old.enabled,
            issuer: old.issuer,
            name: old.name,
            cert_pem: old.cert_pem,
            jwks_endpoint: old.jwks_endpoint,
            kid: old.kid,
            claims_property: old.claims_property,
            use_external_id: old.use_external_id,
            external_auth_url: old.external_auth_url,
            client_id: None,
            scopes: Vec::new(),
            target_token: TargetToken::default(),
        }
    }
}

impl ExternalJwtSigner {
    /// The `iss` of its tokens; `None` if it is empty, which several signers may have.
    fn issuer(&self) -> Option<&str> {
        Some(self.issuer.as_str()).filter(|issuer| !issuer.trim().is_empty())
    }
}

/// The details read from the certificate.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    pub fingerprint: Option<String>,
    pub common_name: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Default for State {
    fn default() -> Self {
        Self {
            fingerprint: None,
            common_name: String::new(),
            not_before: Timestamp::ZERO_TIME,
            not_after: Timestamp::ZERO_TIME,
        }
    }
}

/// An external JWT signer in responses to administrators.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExternalJwtSignerDetail")]
pub struct View {
    name: String,
    enabled: bool,
    /// The `iss` of its tokens; null if it is empty.
    issuer: Option<String>,
    audience: String,
    cert_pem: Option<String>,
    #[schemars(extend("format" = "uri"))]
    jwks_endpoint: Option<String>,
    kid: Option<String>,
    claims_property: String,
    use_external_id: bool,
    #[schemars(extend("format" = "url"))]
    external_auth_url: Option<String>,
    /// The client id of programs at the issuer.
    client_id: Option<String>,
    /// The scopes that programs request from the issuer.
    scopes: Vec<String>,
    /// Which of the issued tokens logs in.
    target_token: TargetToken,
    common_name: String,
    fingerprint: Option<String>,
    /// `0001-01-01T00:00:00.000Z` without a certificate.
    not_before: Timestamp,
    /// `0001-01-01T00:00:00.000Z` without a certificate.
    not_after: Timestamp,
}

impl Stateful for ExternalJwtSigner {
    type State = State;
}

impl Entity for ExternalJwtSigner {
    const KIND: Kind = Kind {
        name: "externalJwtSigner",
        path: "external-jwt-signers",
        noun: "external JWT signer",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::unique("fingerprint", Type::Text, |r| {
            r.state.fingerprint.as_ref().into()
        }),
        Field::unique("issuer", Type::Text, |r| r.spec.issuer().into()),
        Field::unique("kid", Type::Text, |r| r.spec.kid.as_ref().into()),
        Field::plain("audience", Type::Text, |r| (&r.spec.audience).into()),
        Field::plain("certPem", Type::Text, |r| r.spec.cert_pem.as_ref().into()),
        Field::plain("commonName", Type::Text, |r| (&r.state.common_name).into()),
        Field::plain("notAfter", Type::Date, |r| {
            Value::Date(r.state.not_after.millis())
        }),
        Field::plain("notBefore", Type::Date, |r| {
            Value::Date(r.state.not_before.millis())
        }),
        Field::plain("enabled", Type::Bool, |r| r.spec.enabled.into()),
        Field::plain("claimsProperty", Type::Text, |r| {
            (&r.spec.claims_property).into()
        }),
        Field::plain("useExternalId", Type::Bool, |r| {
            r.spec.use_external_id.into()
        }),
    ];
    const VERSION: u8 = 2;
    type View = View;

    /// Version 1 had no client id, scopes and target token.
    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, State)> {
        match version {
            1 => old
                .read::<SpecBeforeClients, State>(Self::ENCODING)
                .map(|(spec, state)| (spec.into(), state)),
            _ => Err(unreadable(version)),
        }
    }

    fn tidy(&mut self) {
        for optional in [
            &mut self.cert_pem,
            &mut self.jwks_endpoint,
            &mut self.kid,
            &mut self.external_auth_url,
            &mut self.client_id,
        ] {
            optional.take_if(|text| text.trim().is_empty());
        }
        if self.claims_property.trim().is_empty() {
            self.claims_property = "sub".into();
        }
    }

    fn check(&self, _: &dyn Lookup) -> Result<()> {
        match (&self.cert_pem, &self.jwks_endpoint) {
            (None, None) => {
                return Err(Error::BadReference(
                    "one of certPem and jwksEndpoint is required".into(),
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Error::BadReference(
                    "only one of certPem and jwksEndpoint may be set".into(),
                ));
            }
            _ => {}
        }
        match self.jwks_endpoint.as_ref().filter(|url| !is_endpoint(url)) {
            // A URL that may hold a password is not repeated.
            Some(bad) => {
                let shown = if bad.contains('@') { "" } else { bad.as_str() };
                Err(Error::invalid(
                    "jwksEndpoint",
                    "must be an http or https URL",
                    shown,
                ))
            }
            None => Ok(()),
        }
    }

    /// A blank issuer is recorded as accepted, but no token finds its signer.
    fn unmatchable(&self) -> Vec<Unmatchable> {
        let issuer = self.issuer().is_none().then(|| {
            Unmatchable::accepted(
                "issuer",
                "is blank: no token finds the signer",
                &self.issuer,
            )
        });
        issuer.into_iter().collect()
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        other_certificate(
            record.state.fingerprint.as_deref().unwrap_or_default(),
            record.spec.cert_pem.as_deref()?,
        )
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let (spec, state) = (record.spec.clone(), record.state.clone());
        Ok(View {
            name: spec.name,
            enabled: spec.enabled,
            issuer: record.spec.issuer().map(Into::into),
            audience: spec.audience,
            cert_pem: spec.cert_pem,
            jwks_endpoint: spec.jwks_endpoint,
            kid: spec.kid,
            claims_property: spec.claims_property,
            use_external_id: spec.use_external_id,
            external_auth_url: spec.external_auth_url,
            client_id: spec.client_id,
            scopes: spec.scopes,
            target_token: spec.target_token,
            common_name: state.common_name,
            fingerprint: state.fingerprint,
            not_before: state.not_before,
            not_after: state.not_after,
        })
    }
}

/// Whether an address has the scheme http or https, a host, a port below 65536 if it has one, and
/// no white space.
fn is_endpoint(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, host)| {
        ["https", "http"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
            && !host.is_empty()
            && !host.starts_with(['/', '?', '#'])
            && !host.contains(char::is_whitespace)
            && has_valid_port(host)
    })
}

/// Whether the authority at the beginning of a text has no port, or a valid one (RFC 3986 section
/// 3.2).
fn has_valid_port(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once(['@', ']'])
        .map_or(authority, |(_, behind)| behind);
    host.split_once(':')
        .is_none_or(|(_, port)| port.is_empty() || port.parse::<u16>().is_ok())
}

/// The schema of a required member that accepts null, which counts as missing.
fn nullable(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Option<String>>()
}
