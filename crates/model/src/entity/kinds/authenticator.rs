//! Authenticators: the credentials of identities.

use pki::Certificate;
use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    Ca, Entity, EntityRef, Field, Id, Identity, Kind, Logged, Lookup, OnDelete, Record, Reference,
    Stateful, Stored, TypedLookup, kind::unreadable, value::other_certificate,
};
use crate::{
    clock::Timestamp,
    error::{Error, Result},
};

/// The length of a user name in characters. A log-in rejects other lengths.
const USERNAME: std::ops::RangeInclusive<usize> = 4..=100;

/// Checks a user name.
///
/// # Errors
/// [`Error::Invalid`] if it is too short or too long to log in with.
pub fn check_username(name: &str) -> Result<()> {
    if USERNAME.contains(&name.chars().count()) {
        return Ok(());
    }
    Err(Error::invalid(
        "username",
        format!(
            "must have {} to {} characters",
            USERNAME.start(),
            USERNAME.end()
        ),
        name,
    ))
}

/// A credential of an identity. Requests do not write it directly, and it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authenticator {
    pub identity_id: Id<Identity>,
    pub credential: Credential,
}

/// The origin of a credential.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The third-party CA that issued the certificate, if one did: the credential is deleted with
    /// the CA.
    pub ca_id: Option<Id<Ca>>,
    /// An administrator's wish that its holder renews the certificate.
    pub extension: Option<ExtensionRequest>,
}

/// The wish that the holder of a certificate renews it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExtensionRequest {
    /// Whether the holder should also make a new key.
    pub roll_keys: bool,
    pub at: Timestamp,
}

/// The state as stored in version 1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StateBeforeExtensions {
    ca_id: Option<Id<Ca>>,
}

impl From<StateBeforeExtensions> for State {
    fn from(StateBeforeExtensions { ca_id }: StateBeforeExtensions) -> Self {
        Self {
            ca_id,
            extension: None,
        }
    }
}

/// The data that a log-in is verified with.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Credential {
    /// User name and password; of the password only a PHC string of its hash.
    Updb { username: String, password: String },
    /// A client certificate, and the one that replaces it once its holder has confirmed it.
    Cert {
        fingerprint: String,
        pem: String,
        unverified: Option<Unverified>,
    },
}

/// A certificate that was issued but not confirmed yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Unverified {
    pub fingerprint: String,
    pub pem: String,
}

/// The kinds of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "AuthenticatorMethod")]
pub enum Method {
    Updb,
    Cert,
}

impl Method {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Updb => "updb",
            Self::Cert => "cert",
        }
    }
}

impl Credential {
    /// A credential for a certificate.
    pub fn certificate(of: &Certificate) -> Self {
        Self::Cert {
            fingerprint: of.fingerprint(),
            pem: of.pem(),
            unverified: None,
        }
    }

    /// The kind of credential.
    pub fn method(&self) -> Method {
        match self {
            Self::Updb { .. } => Method::Updb,
            Self::Cert { .. } => Method::Cert,
        }
    }

    /// The password's PHC string, or the certificate's fingerprint.
    pub fn proof(&self) -> &str {
        match self {
            Self::Updb {
                password: proof, ..
            }
            | Self::Cert {
                fingerprint: proof, ..
            } => proof,
        }
    }

    /// The user name of a password.
    pub fn username(&self) -> Option<&str> {
        match self {
            Self::Updb { username, .. } => Some(username),
            Self::Cert { .. } => None,
        }
    }

    /// The fingerprint of a certificate.
    pub fn fingerprint(&self) -> Option<&str> {
        match self {
            Self::Updb { .. } => None,
            Self::Cert { fingerprint, .. } => Some(fingerprint),
        }
    }

    /// The fingerprint of the certificate that replaces the present one once its holder has
    /// confirmed it. Until then the holder may show either of them on a new connection: a client
    /// library takes the new one as soon as it has arrived.
    pub fn unverified_fingerprint(&self) -> Option<&str> {
        match self {
            Self::Cert {
                unverified: Some(Unverified { fingerprint, .. }),
                ..
            } => Some(fingerprint),
            Self::Updb { .. }
            | Self::Cert {
                unverified: None, ..
            } => None,
        }
    }

    /// The fingerprints of the certificates that its holder may show.
    pub fn fingerprints(&self) -> impl Iterator<Item = &str> {
        self.fingerprint()
            .into_iter()
            .chain(self.unverified_fingerprint())
    }

    /// The certificate as PEM, if it is one and was stored.
    pub fn pem(&self) -> Option<&str> {
        match self {
            Self::Updb { .. } => None,
            Self::Cert { pem, .. } => Some(pem).filter(|pem| !pem.is_empty()).map(String::as_str),
        }
    }
}

/// An authenticator in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthenticatorDetail")]
pub struct View {
    method: Method,
    identity_id: Id<Identity>,
    identity: EntityRef,
    /// Only for a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    /// Only for a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    cert_pem: Option<String>,
    /// Only for a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    /// Only for a certificate: whether this controller issued it, so that its holder can renew it.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_issued_by_network: Option<bool>,
    /// Only for a certificate: whether an administrator asked its holder to renew it.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_extend_requested: Option<bool>,
    /// Only for a certificate: whether the holder should also make a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_key_roll_requested: Option<bool>,
    /// When an administrator asked for the renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    extend_requested_at: Option<Timestamp>,
}

impl Record<Authenticator> {
    /// Whether it is a certificate that this controller issued. One of another authority names that
    /// authority.
    pub fn is_issued_by_network(&self) -> bool {
        self.spec.credential.method() == Method::Cert && self.state.ca_id.is_none()
    }
}

impl Stateful for Authenticator {
    type State = State;
}

impl Entity for Authenticator {
    const KIND: Kind = Kind {
        name: "authenticator",
        path: "authenticators",
        noun: "authenticator",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::plain("method", Type::Text, |r| {
            r.spec.credential.method().as_str().into()
        }),
        Field::unique("certFingerprint", Type::Text, |r| {
            r.spec.credential.fingerprint().into()
        }),
        Field::plain("certPem", Type::Text, |r| r.spec.credential.pem().into()),
        Field::unique("updbUsername", Type::Text, |r| {
            r.spec.credential.username().into()
        }),
        Field::indexed("identity", Type::Text, |r| {
            r.spec.identity_id.as_str().into()
        }),
    ];
    const SECRET: &'static [&'static str] = &["updbPassword", "updbSalt"];
    const MEMBERS: &'static [(&'static str, &'static str)] = &[("updbUsername", "username")];
    const REFERENCES: &'static [Reference<Self>] = &[
        Reference::to::<Identity>(
            "identity",
            |r| vec![r.spec.identity_id.as_str()],
            OnDelete::Cascade,
        ),
        Reference::to::<Ca>(
            "ca",
            |r| r.state.ca_id.iter().map(Id::as_str).collect(),
            OnDelete::Cascade,
        ),
    ];
    const ENDS_BY: &'static [&'static str] = &["ca"];
    const LOGGED: Logged = Logged::Changes {
        secret: &["/credential/updb/password"],
        quiet: &[],
    };
    const VERSION: u8 = 2;
    type View = View;

    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, State)> {
        if version != 1 {
            return Err(unreadable(version));
        }
        old.read::<Self, StateBeforeExtensions>(Self::ENCODING)
            .map(|(spec, state)| (spec, state.into()))
    }

    fn check(&self, _: &dyn Lookup) -> Result<()> {
        self.credential.username().map_or(Ok(()), check_username)
    }

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        let Credential::Cert {
            fingerprint,
            pem,
            unverified,
        } = &record.spec.credential
        else {
            return None;
        };
        let waiting = unverified
            .iter()
            .map(|waiting| (&waiting.fingerprint, &waiting.pem));
        let mut kept = [(fingerprint, pem)]
            .into_iter()
            .chain(waiting)
            .filter(|(_, pem)| !pem.is_empty());
        kept.find_map(|(fingerprint, pem)| other_certificate(fingerprint, pem))
    }

    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<View> {
        let Self {
            identity_id,
            credential,
        } = &record.spec;
        let identity = lookup.get(identity_id)?;
        let (is_certificate, wish) = (
            credential.method() == Method::Cert,
            record.state.extension.as_ref(),
        );
        Ok(View {
            method: credential.method(),
            identity_id: identity_id.clone(),
            identity: EntityRef::of(&identity, &identity.spec.name),
            username: credential.username().map(Into::into),
            cert_pem: credential.pem().map(Into::into),
            fingerprint: credential.fingerprint().map(Into::into),
            is_issued_by_network: is_certificate.then(|| record.is_issued_by_network()),
            is_extend_requested: is_certificate.then_some(wish.is_some()),
            is_key_roll_requested: is_certificate.then(|| wish.is_some_and(|wish| wish.roll_keys)),
            extend_requested_at: wish.map(|wish| wish.at),
        })
    }

    fn links(record: &Record<Self>) -> Vec<(&'static str, String)> {
        vec![(
            "identities",
            format!("identities/{}", record.spec.identity_id),
        )]
    }
}
