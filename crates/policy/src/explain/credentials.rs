//! The credentials of an identity and why they are not allowed, judged as a log-in judges them, but
//! without a request.

use std::slice;

use model::{
    clock::Timestamp,
    entity::{
        AuthPolicy, Authenticator, Ca, ExternalJwtSigner, Id, Identity, Lookup, Record,
        TypedLookup,
        auth_policy::{ExtJwt, Primary},
        authenticator,
    },
    error::Result,
};
use pki::Certificate;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};
use store::Read;

use super::{case::MAX_LISTED, obstacle::SuggestedEdit};
use crate::authentication::trust::{self, ChainPolicy};

/// A credential of the identity.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedCredential")]
pub(crate) struct ExplainedCredential {
    pub(crate) method: LoginMethod,
    /// Whether a log-in with it succeeds: the auth policy of the identity allows it, and a
    /// certificate is valid, or expired where the policy allows that, and issued by an authority
    /// whose certificates may log in.
    pub(crate) is_allowed: bool,
    /// Whether its holder was asked to renew the certificate, and has not done so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_extend_requested: bool,
    /// Why it is not allowed; all reasons must be removed.
    #[serde(skip)]
    pub(crate) lacking: Vec<CredentialProblem>,
}

impl ExplainedCredential {
    fn new(method: LoginMethod, lacking: Vec<CredentialProblem>) -> Self {
        Self {
            method,
            is_allowed: lacking.is_empty(),
            is_extend_requested: false,
            lacking,
        }
    }
}

/// A reason why a credential is not allowed.
#[derive(Debug)]
pub(crate) struct CredentialProblem {
    /// The reason as text.
    pub(crate) text: String,
    /// Requests of which any one removes the reason; empty if no request can.
    pub(crate) edits: Vec<SuggestedEdit>,
}

/// The log-in methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedMethod")]
pub(crate) enum LoginMethod {
    /// User name and password.
    Updb,
    /// A client certificate.
    Cert,
    /// Its external id, in a certificate of a third-party authority or a token of an external
    /// signer.
    ExternalId,
    /// Its id, in a token of an external signer.
    ExternalJwt,
}

/// All credentials of an identity with this auth policy.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn credentials(
    tx: &Read<'_>,
    identity: &Record<Identity>,
    policy: &Record<AuthPolicy>,
) -> Result<Vec<ExplainedCredential>> {
    let others = Others::read(tx)?;
    let look = CredentialContext {
        tx,
        identity,
        policy,
        others: &others,
    };
    let mut means: Vec<ExplainedCredential> = Vec::new();
    for held in tx.linked::<Authenticator>("identity", identity.id.as_str())? {
        means.push(match held.spec.credential.method() {
            authenticator::Method::Updb => {
                ExplainedCredential::new(LoginMethod::Updb, look.password())
            }
            authenticator::Method::Cert => ExplainedCredential {
                is_extend_requested: held.state.extension.is_some(),
                ..ExplainedCredential::new(LoginMethod::Cert, look.certificate(&held)?)
            },
        });
    }
    if identity.spec.external_id.is_some() {
        means.extend(look.external_id());
    }
    let by_id = others
        .signers_by_id
        .iter()
        .any(|signer| look.allowed().ext_jwt.lets_in(&signer.id));
    means.extend(by_id.then(|| ExplainedCredential::new(LoginMethod::ExternalJwt, Vec::new())));
    Ok(means)
}

/// The authorities and signers that can vouch for identities.
struct Others {
    authorities: Vec<Record<Ca>>,
    /// The enabled signers whose tokens hold external ids.
    signers: Vec<Record<ExternalJwtSigner>>,
    /// The enabled signers whose tokens hold the ids of identities.
    signers_by_id: Vec<Record<ExternalJwtSigner>>,
}

impl Others {
    fn read(tx: &Read<'_>) -> Result<Self> {
        let (mut authorities, mut enabled) = (Vec::new(), Vec::new());
        tx.each_readable::<Ca>(|ca| {
            authorities.push(ca);
            Ok(())
        })?;
        tx.each_readable::<ExternalJwtSigner>(|signer| {
            enabled.extend(signer.spec.enabled.then_some(signer));
            Ok(())
        })?;
        let (signers, signers_by_id) = enabled
            .into_iter()
            .partition(|signer| signer.spec.use_external_id);
        Ok(Self {
            authorities,
            signers,
            signers_by_id,
        })
    }

    /// The authority by which a log-in judges a certificate. If none allows it, the closest: a
    /// verified one, then any.
    fn above(&self, leaf: &Certificate, now: Timestamp) -> Option<Record<Ca>> {
        let of = |admitted: fn(&Record<Ca>) -> bool| {
            let cas = self
                .authorities
                .iter()
                .filter(|ca| admitted(ca))
                .cloned()
                .collect();
            trust::above(
                cas,
                slice::from_ref(leaf),
                ChainPolicy::of_login(now.seconds()),
            )
        };
        of(Record::lets_in)
            .or_else(|| of(|ca| ca.state.is_verified))
            .or_else(|| of(|_| true))
    }
}

/// An identity, its auth policy, and the authorities and signers.
struct CredentialContext<'l> {
    tx: &'l Read<'l>,
    identity: &'l Record<Identity>,
    policy: &'l Record<AuthPolicy>,
    others: &'l Others,
}

impl CredentialContext<'_> {
    fn allowed(&self) -> &Primary {
        &self.policy.spec.primary
    }

    fn password(&self) -> Vec<CredentialProblem> {
        let lack = || CredentialProblem {
            text: format!(
                "the auth policy {} does not allow passwords",
                self.policy.spec.name
            ),
            edits: vec![self.allowing(json!({ "updb": { "allowed": true } }), "passwords")],
        };
        (!self.allowed().updb.allowed)
            .then(lack)
            .into_iter()
            .collect()
    }

    /// The edit that changes the member `primary` of the policy; `words` say what it then allows.
    fn allowing(&self, primary: Json, words: &str) -> SuggestedEdit {
        SuggestedEdit {
            method: "PATCH",
            path: format!("/auth-policies/{}", self.policy.id),
            body: json!({ "primary": primary }),
            text: format!(
                "change the auth policy {} to allow {words}",
                self.policy.spec.name
            ),
        }
    }

    fn certificate(&self, held: &Record<Authenticator>) -> Result<Vec<CredentialProblem>> {
        let leaf = held
            .spec
            .credential
            .pem()
            .and_then(|pem| Certificate::first(pem).ok());
        let mut lacking: Vec<CredentialProblem> = self
            .allowance(leaf.as_ref())
            .into_iter()
            .chain(self.too_early(leaf.as_ref()))
            .collect();
        if let Some(issuer) = &held.state.ca_id {
            lacking.extend(self.authority(leaf.as_ref(), issuer)?);
        }
        Ok(lacking)
    }

    /// The reason if the policy does not allow certificates, or this one has expired and the policy
    /// does not allow that.
    fn allowance(&self, leaf: Option<&Certificate>) -> Option<CredentialProblem> {
        let (cert, name, now) = (
            &self.allowed().cert,
            &self.policy.spec.name,
            self.tx.now().seconds(),
        );
        let expired = leaf.filter(|leaf| leaf.not_after() < now && !cert.allow_expired_certs);
        let (change, words) = match (cert.allowed, expired) {
            (true, None) => return None,
            (false, None) => (json!({ "allowed": true }), "certificates"),
            (true, Some(_)) => (json!({ "allowExpiredCerts": true }), "expired certificates"),
            (false, Some(_)) => (
                json!({ "allowed": true, "allowExpiredCerts": true }),
                "certificates, also expired ones",
            ),
        };
        let end = |leaf: &Certificate| {
            format!(
                " that have expired, like its own at {}",
                Timestamp::from_seconds(leaf.not_after())
            )
        };
        let text = format!(
            "the auth policy {name} does not allow certificates{}",
            expired.map(end).unwrap_or_default()
        );
        Some(CredentialProblem {
            text,
            edits: vec![self.allowing(json!({ "cert": change }), words)],
        })
    }

    /// The reason if a certificate is not valid yet, which no policy allows.
    fn too_early(&self, leaf: Option<&Certificate>) -> Option<CredentialProblem> {
        let begin = leaf
            .map(Certificate::not_before)
            .filter(|begin| *begin > self.tx.now().seconds())?;
        let text = format!(
            "its certificate is not valid before {}",
            Timestamp::from_seconds(begin)
        );
        Some(CredentialProblem {
            text,
            edits: Vec::new(),
        })
    }

    /// The reasons if the third-party authority of a certificate does not allow log-in, or maps the
    /// certificate to another identity.
    fn authority(
        &self,
        leaf: Option<&Certificate>,
        issuer: &Id<Ca>,
    ) -> Result<Vec<CredentialProblem>> {
        let Some(noted) = self.others.authorities.iter().find(|ca| ca.id == *issuer) else {
            return Ok(Vec::new());
        };
        let name = &noted.spec.name;
        let Some(ca) = leaf.map_or_else(
            || Some(noted.clone()),
            |leaf| {
                self.others
                    .above(leaf, self.tx.now())
                    .or_else(|| unseen(noted, leaf))
            },
        ) else {
            return Ok(vec![CredentialProblem {
                text: format!(
                    "its certificate cannot be verified with that of the authority {name} now"
                ),
                edits: Vec::new(),
            }]);
        };
        let mut lacking: Vec<CredentialProblem> =
            (!ca.lets_in()).then(|| shut(&ca)).into_iter().collect();
        let claim = ca
            .spec
            .external_id_claim
            .as_ref()
            .zip(leaf)
            .and_then(|(claim, leaf)| claim.value_in(leaf));
        // The claim decides which identity logs in, whatever credential it has.
        if let Some(named) = claim.filter(|named| {
            !named.trim().is_empty() && self.identity.spec.external_id.as_ref() != Some(named)
        }) {
            let is_free = self.identity.spec.external_id.is_none()
                && !self.tx.any::<Identity>("externalId", &named)?;
            let edit = || SuggestedEdit {
                method: "PATCH",
                path: format!("/identities/{}", self.identity.id),
                body: json!({ "externalId": named }),
                text: format!(
                    "set the external id of {} to {named}",
                    self.identity.spec.name
                ),
            };
            let text = format!(
                "the authority {} maps its certificate to the external id {named}, which is not its own",
                ca.spec.name
            );
            lacking.push(CredentialProblem {
                text,
                edits: is_free.then(edit).into_iter().collect(),
            });
        }
        Ok(lacking)
    }

    /// The external id as a credential, if an authority or signer uses external ids.
    fn external_id(&self) -> Option<ExplainedCredential> {
        let (allowed, signers) = (self.allowed(), &self.others.signers);
        let by_token = signers
            .iter()
            .any(|signer| allowed.ext_jwt.lets_in(&signer.id));
        let claims = |ca: &&Record<Ca>| ca.state.is_verified && ca.spec.external_id_claim.is_some();
        let (open, closed): (Vec<_>, Vec<_>) = self
            .others
            .authorities
            .iter()
            .filter(claims)
            .partition(|ca| ca.lets_in());
        if by_token || (allowed.cert.allowed && !open.is_empty()) {
            return Some(ExplainedCredential::new(
                LoginMethod::ExternalId,
                Vec::new(),
            ));
        }
        let certificates = (!open.is_empty())
            .then(|| self.allowing(json!({ "cert": { "allowed": true } }), "certificates"));
        let opened = closed
            .into_iter()
            .filter(|_| allowed.cert.allowed)
            .take(MAX_LISTED)
            .map(opening);
        let edits: Vec<SuggestedEdit> = certificates
            .into_iter()
            .chain(self.allowing_tokens(signers))
            .chain(opened)
            .collect();
        let name = &self.policy.spec.name;
        let text = format!(
            "no authority or signer that the auth policy {name} allows uses its external id"
        );
        (!edits.is_empty()).then(|| {
            ExplainedCredential::new(
                LoginMethod::ExternalId,
                vec![CredentialProblem { text, edits }],
            )
        })
    }

    /// Edits that allow tokens of these signers. Signers are only added to the list of a policy,
    /// because an empty list means all of them.
    fn allowing_tokens(&self, signers: &[Record<ExternalJwtSigner>]) -> Vec<SuggestedEdit> {
        let ext_jwt = &self.allowed().ext_jwt;
        let tokens = |change: Json, whose: &str| {
            self.allowing(json!({ "extJwt": change }), &format!("tokens of {whose}"))
        };
        if signers.iter().any(|signer| ext_jwt.lists(&signer.id)) {
            let whose = if ext_jwt.allowed_signers.is_empty() {
                "every signer"
            } else {
                "the signers that it lists"
            };
            return vec![tokens(json!({ "allowed": true }), whose)];
        }
        let adding = |signer: &Record<ExternalJwtSigner>| {
            let ExtJwt {
                allowed,
                allowed_signers,
            } = ext_jwt;
            let listed: Vec<_> = allowed_signers.iter().chain([&signer.id]).collect();
            let name = &signer.spec.name;
            if *allowed {
                return tokens(json!({ "allowedSigners": listed }), name);
            }
            tokens(
                json!({ "allowed": true, "allowedSigners": listed }),
                &format!("{name} and of the signers that it lists"),
            )
        };
        signers.iter().take(MAX_LISTED).map(adding).collect()
    }
}

/// The authority under which a certificate was registered, if the chain between them may contain
/// intermediates that only the client sends.
fn unseen(noted: &Record<Ca>, leaf: &Certificate) -> Option<Record<Ca>> {
    let own = noted.spec.certificates().unwrap_or_default();
    (!own
        .iter()
        .any(|certificate| certificate.subject() == leaf.issuer()))
    .then(|| noted.clone())
}

/// The reason if the certificates of an authority do not log in.
fn shut(ca: &Record<Ca>) -> CredentialProblem {
    let name = &ca.spec.name;
    if ca.state.is_verified {
        return CredentialProblem {
            text: format!("certificates of the authority {name} do not log in"),
            edits: vec![opening(ca)],
        };
    }
    CredentialProblem {
        text: format!(
            "the authority {name}, which issued its certificate, is not verified: its owner has to prove that it holds the key"
        ),
        edits: Vec::new(),
    }
}

fn opening(ca: &Record<Ca>) -> SuggestedEdit {
    SuggestedEdit {
        method: "PATCH",
        path: format!("/cas/{}", ca.id),
        body: json!({ "isAuthEnabled": true }),
        text: format!("let certificates of the authority {} log in", ca.spec.name),
    }
}
