//! Auth policies: how an identity may log in, and which second factors it needs.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Entity, ExternalJwtSigner, Field, Id, Kind, Lookup, OnDelete, Record, Reference, Stateful,
    TypedLookup,
};
use crate::error::{Error, Result};

/// The shortest password that any policy allows, in characters.
const MIN_PASSWORD_LENGTH: i64 = 5;
/// Passwords with less characters can be guessed, if a policy allows them.
pub const LONG_PASSWORD: i64 = 12;
/// The longest password that a log-in may send, in characters.
const MAX_PASSWORD_LENGTH: usize = 100;

/// How the identities that name it may log in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuthPolicy {
    pub name: String,
    pub primary: Primary,
    pub secondary: Secondary,
}

/// The log-in methods; any allowed one is enough.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthPolicyPrimary")]
pub struct Primary {
    pub cert: Cert,
    pub ext_jwt: ExtJwt,
    pub updb: Updb,
}

/// Client certificates.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthPolicyPrimaryCert")]
pub struct Cert {
    pub allowed: bool,
    /// Whether an expired certificate is accepted.
    pub allow_expired_certs: bool,
}

/// Tokens of external JWT signers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthPolicyPrimaryExtJwt")]
pub struct ExtJwt {
    pub allowed: bool,
    /// Signers by id; an empty list allows every enabled signer.
    pub allowed_signers: Vec<Id<ExternalJwtSigner>>,
}

impl ExtJwt {
    /// Whether tokens of an enabled signer may log in.
    pub fn lets_in(&self, signer: &Id<ExternalJwtSigner>) -> bool {
        self.allowed && self.lists(signer)
    }

    /// Whether the list includes a signer, whether or not tokens are allowed.
    pub fn lists(&self, signer: &Id<ExternalJwtSigner>) -> bool {
        self.allowed_signers.is_empty() || self.allowed_signers.contains(signer)
    }
}

/// User name and password.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthPolicyPrimaryUpdb")]
pub struct Updb {
    pub allowed: bool,
    /// At least 5; a smaller value counts as 5.
    pub min_password_length: i64,
    pub require_special_char: bool,
    pub require_number_char: bool,
    /// Whether a password needs both upper and lower case letters.
    pub require_mixed_case: bool,
    /// The number of wrong passwords in a row that locks the identity; 0 means never.
    pub max_attempts: i64,
    /// How long it stays locked; 0 means until an administrator enables it.
    pub lockout_duration_minutes: i64,
}

impl Updb {
    /// Whether passwords may log in that can be guessed: short ones, or any with as many attempts
    /// as somebody likes.
    pub fn is_guessable(&self) -> bool {
        self.allowed && (self.min_password_length < LONG_PASSWORD || self.max_attempts == 0)
    }

    /// Checks a new password. Letters and digits are those of any script; every other character
    /// except white space is special.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first rule that it breaks. The error does not repeat the
    /// password.
    pub fn check_password(&self, password: &str) -> Result<()> {
        let has = |kind: fn(char) -> bool| password.chars().any(kind);
        let length = password.chars().count();
        let shortest = self.min_password_length.max(MIN_PASSWORD_LENGTH);
        let special = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
        let rules = [
            (
                length <= MAX_PASSWORD_LENGTH,
                format!("must have at most {MAX_PASSWORD_LENGTH} characters"),
            ),
            (
                i64::try_from(length).is_ok_and(|length| length >= shortest),
                format!("must have at least {shortest} characters"),
            ),
            (
                !self.require_mixed_case || has(char::is_lowercase) && has(char::is_uppercase),
                "must have lower and upper case letters".into(),
            ),
            (
                !self.require_number_char || has(char::is_numeric),
                "must have a digit".into(),
            ),
            (
                !self.require_special_char || has(special),
                "must have a special character".into(),
            ),
        ];
        let broken = rules.into_iter().find(|(kept, _)| !kept);
        broken.map_or(Ok(()), |(_, reason)| {
            Err(Error::invalid("password", reason, ""))
        })
    }
}

/// The second factors that a session needs before it may do anything.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthPolicySecondary")]
pub struct Secondary {
    /// A one-time code.
    pub require_totp: bool,
    /// A token of this signer with every request; empty or absent means none.
    #[serde(default)]
    pub require_ext_jwt_signer: Option<Id<ExternalJwtSigner>>,
}

/// An auth policy in responses.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuthPolicyDetail")]
pub struct View {
    name: String,
    primary: Primary,
    secondary: Secondary,
}

impl Stateful for AuthPolicy {
    type State = ();
}

impl Entity for AuthPolicy {
    const KIND: Kind = Kind {
        name: "authPolicy",
        path: "auth-policies",
        noun: "auth policy",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("primary.cert.allowed", Type::Bool, |r| {
            r.spec.primary.cert.allowed.into()
        }),
        Field::plain("primary.cert.allowExpiredCerts", Type::Bool, |r| {
            r.spec.primary.cert.allow_expired_certs.into()
        }),
        Field::plain("primary.updb.allowed", Type::Bool, |r| {
            r.spec.primary.updb.allowed.into()
        }),
        Field::plain("primary.updb.minPasswordLength", Type::Number, |r| {
            r.spec.primary.updb.min_password_length.into()
        }),
        Field::plain("primary.updb.requireSpecialChar", Type::Bool, |r| {
            r.spec.primary.updb.require_special_char.into()
        }),
        Field::plain("primary.updb.requireNumberChar", Type::Bool, |r| {
            r.spec.primary.updb.require_number_char.into()
        }),
        Field::plain("primary.updb.requireMixedCase", Type::Bool, |r| {
            r.spec.primary.updb.require_mixed_case.into()
        }),
        Field::plain("primary.updb.maxAttempts", Type::Number, |r| {
            r.spec.primary.updb.max_attempts.into()
        }),
        Field::plain("primary.extJwt.allowed", Type::Bool, |r| {
            r.spec.primary.ext_jwt.allowed.into()
        }),
        Field::plain("secondary.requireTotp", Type::Bool, |r| {
            r.spec.secondary.require_totp.into()
        }),
        Field::plain("secondary.requireExtJwtSigner", Type::Text, |r| {
            r.spec
                .secondary
                .require_ext_jwt_signer
                .as_ref()
                .map(Id::as_str)
                .into()
        }),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<ExternalJwtSigner>(
            "primary.extJwt.allowedSigners",
            |r| {
                r.spec
                    .primary
                    .ext_jwt
                    .allowed_signers
                    .iter()
                    .map(Id::as_str)
                    .collect()
            },
            OnDelete::Restrict,
        ),
        Reference::to::<ExternalJwtSigner>(
            "secondary.requireExtJwtSigner",
            |r| {
                r.spec
                    .secondary
                    .require_ext_jwt_signer
                    .iter()
                    .map(Id::as_str)
                    .collect()
            },
            OnDelete::Restrict,
        ),
    ];
    type View = View;

    fn tidy(&mut self) {
        let updb = &mut self.primary.updb;
        updb.min_password_length = updb.min_password_length.max(MIN_PASSWORD_LENGTH);
        updb.max_attempts = updb.max_attempts.max(0);
        updb.lockout_duration_minutes = updb.lockout_duration_minutes.max(0);
        self.secondary
            .require_ext_jwt_signer
            .take_if(|id| id.as_str().trim().is_empty());
    }

    fn check(&self, lookup: &dyn Lookup) -> Result<()> {
        let exists = |id, field: &str| lookup.get(id).map(|_| ()).map_err(|e| e.in_field(field));
        let required = self
            .secondary
            .require_ext_jwt_signer
            .iter()
            .map(|id| exists(id, "secondary.requiredExtJwtSigner"));
        let allowed = self.primary.ext_jwt.allowed_signers.iter().enumerate();
        Error::all(
            required.chain(
                allowed.map(|(at, id)| {
                    exists(id, &format!("primary.extJwt.allowedExtJwtSigners[{at}]"))
                }),
            ),
        )
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            primary,
            secondary,
        } = record.spec.clone();
        Ok(View {
            name,
            primary,
            secondary,
        })
    }
}
