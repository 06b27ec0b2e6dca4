//! External id claims: where a certificate of a third-party authority holds the id of its identity.

use pki::Certificate;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::unmatchable::Unmatchable;

/// The member that a matcher compares with.
const CRITERIA: &str = "externalIdClaim.matcherCriteria";
/// The certificate of a TLS handshake has less than 64 KiB, so that it does not hold more parts.
const MAX_INDEX: i64 = 65_535;

/// Where a certificate holds an external id: candidates from `location` are filtered by `matcher`
/// and split by `parser`; `index` selects one of the results.
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

/// Which candidates match. A matching `PREFIX` or `SUFFIX` is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimMatcher {
    All,
    Prefix,
    Suffix,
    Scheme,
}

/// Whether a candidate is used whole or split at a separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimParser {
    None,
    Split,
}

impl ExternalIdClaim {
    /// The external id in a certificate; `None` if it has none, or the claim cannot match any
    /// certificate. A certificate without a common name has an empty one.
    pub fn value_in(&self, certificate: &Certificate) -> Option<String> {
        let kept = self
            .candidates(certificate)
            .into_iter()
            .filter_map(|candidate| self.matched(candidate));
        let at = usize::try_from(self.index).ok()?;
        match self.parser {
            ClaimParser::None => kept.into_iter().nth(at),
            ClaimParser::Split if self.parser_criteria.is_empty() => None,
            ClaimParser::Split => kept.flat_map(|text| self.parts(&text)).nth(at),
        }
    }

    /// The members by which the claim matches no certificate. A blank suffix or separator, and a
    /// prefix of a URI, are recorded as accepted.
    pub(crate) fn unmatchable(&self) -> Vec<Unmatchable> {
        let (criteria, mut found) = (self.matcher_criteria.as_str(), Vec::new());
        let (is_uri, matcher) = (self.location == ClaimLocation::SanUri, self.matcher);
        let blank = "must not be blank: nothing matches it";
        match matcher {
            ClaimMatcher::All => {}
            ClaimMatcher::Suffix if criteria.is_empty() => {
                found.push(Unmatchable::accepted(CRITERIA, blank, ""))
            }
            _ if criteria.is_empty() => found.push(Unmatchable::refused(CRITERIA, blank, "")),
            ClaimMatcher::Scheme if !is_scheme(criteria) => {
                let reason = "must be a scheme, such as spiffe: letters, digits, plus, minus and dot, without a colon";
                found.push(Unmatchable::refused(CRITERIA, reason, criteria));
            }
            ClaimMatcher::Scheme | ClaimMatcher::Prefix | ClaimMatcher::Suffix => {}
        }
        let only_scheme =
            "must be ALL or SCHEME for a SAN_URI: of a URI only the scheme is matched";
        match matcher {
            ClaimMatcher::Prefix if is_uri => found.push(Unmatchable::accepted(
                "externalIdClaim.matcher",
                only_scheme,
                "PREFIX",
            )),
            ClaimMatcher::Suffix if is_uri => found.push(Unmatchable::refused(
                "externalIdClaim.matcher",
                only_scheme,
                "SUFFIX",
            )),
            _ => {}
        }
        if self.parser == ClaimParser::Split && self.parser_criteria.is_empty() {
            found.push(Unmatchable::accepted(
                "externalIdClaim.parserCriteria",
                "must not be blank: nothing is split at it",
                "",
            ));
        }
        let is_single =
            self.parser == ClaimParser::None && self.location == ClaimLocation::CommonName;
        let most = if is_single { 0 } else { MAX_INDEX };
        if self.index > most {
            let reason = format!("must be at most {most}: no certificate holds more there");
            found.push(Unmatchable::refused(
                "externalIdClaim.index",
                reason,
                self.index.to_string(),
            ));
        }
        found
    }

    fn candidates(&self, certificate: &Certificate) -> Vec<String> {
        let names = certificate.names();
        match self.location {
            ClaimLocation::CommonName => {
                vec![certificate.subject().common_name().unwrap_or_default()]
            }
            ClaimLocation::SanUri => names.uris.iter().map(|uri| lower_scheme(uri)).collect(),
            ClaimLocation::SanEmail => names.emails.clone(),
        }
    }

    fn matched(&self, candidate: String) -> Option<String> {
        let wanted = self.matcher_criteria.as_str();
        match (self.matcher, self.location) {
            (ClaimMatcher::All, _) => Some(candidate),
            _ if wanted.is_empty() => None,
            (ClaimMatcher::Scheme, ClaimLocation::SanUri) => {
                let fits = candidate
                    .split_once(':')
                    .is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case(wanted));
                fits.then_some(candidate)
            }
            // Of a URI only the scheme can be matched.
            (_, ClaimLocation::SanUri) | (ClaimMatcher::Scheme, _) => None,
            (ClaimMatcher::Prefix, _) => candidate.strip_prefix(wanted).map(str::to_owned),
            (ClaimMatcher::Suffix, _) => candidate.strip_suffix(wanted).map(str::to_owned),
        }
    }

    fn parts(&self, text: &str) -> Vec<String> {
        text.split(self.parser_criteria.as_str())
            .map(str::to_owned)
            .collect()
    }
}

/// Whether a text is a scheme (RFC 3986 section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// RFC 3986 section 3.1: schemes are case-insensitive, and the normal form is lower case.
fn lower_scheme(uri: &str) -> String {
    match uri.split_once(':') {
        Some((scheme, rest)) => format!("{}:{rest}", scheme.to_ascii_lowercase()),
        None => uri.to_owned(),
    }
}

/// The schema of a required member that accepts null, which counts as missing.
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
