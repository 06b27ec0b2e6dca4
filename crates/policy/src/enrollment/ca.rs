//! Method `ca`: the holder of a certificate of a third-party authority becomes a new identity,
//! without a token.

use model::{
    entity::{Ca, Credential, Id, Identity, Record, Tags, TypedLookup},
    error::{Error, Refusal, Result},
    hidden_text,
};
use pki::Certificate;
use store::Read;

use super::context::{EnrollmentContext, EnrollmentRequest, Member};
use crate::{
    authentication::trust::{self, ChainPolicy},
    change::{
        Change, Lifecycle,
        authenticator::{self, NewAuthenticator},
    },
};

/// How many numbers may be appended to a name.
const MAX_SUFFIXES: u32 = 5;

/// Creates an identity for the holder of a chain, leaf first.
///
/// # Errors
/// No authority verifies the chain, the certificate lacks the claim or is in use, or the body is
/// invalid.
pub async fn enroll(
    context: &EnrollmentContext<'_>,
    chain: &[Certificate],
    body: &EnrollmentRequest,
) -> Result<()> {
    let requested = requested_name(body)?;
    let refused = || Error::Refused(Refusal::CertFailedValidation);
    let found = context.store.read(|tx| {
        if tx.count::<Ca>()? == 0 {
            return Err(Error::Refused(Refusal::EnrollmentNoValidCas));
        }
        trust::authority(
            tx,
            chain,
            ChainPolicy::of_enrollment(context.now.seconds()),
            takes_part,
        )
    })?;
    let (ca, leaf) = found
        .map(|ca| ca.id)
        .zip(chain.first().cloned())
        .ok_or_else(refused)?;
    let work = move |change: &Change<'_, '_>| {
        let ca = change.find(&ca)?.filter(takes_part).ok_or_else(refused)?;
        admit(change, &ca, &leaf, requested)
    };
    context.changes.run(work).await
}

fn takes_part(ca: &Record<Ca>) -> bool {
    ca.state.is_verified && ca.spec.is_auto_ca_enrollment_enabled
}

/// The name that the body requests, if any.
fn requested_name(body: &EnrollmentRequest) -> Result<Option<String>> {
    match body.members().and_then(|members| members.name.as_ref()) {
        None => Ok(None),
        Some(Member::Text(name)) => {
            hidden_text::check("name", name)?;
            Ok(Some(name.clone()).filter(|name| !name.trim().is_empty()))
        }
        Some(Member::Other(_)) => Err(Error::invalid("name", "must be a text", "")),
    }
}

/// Stores the identity. If a claim identifies it, it gets no authenticator.
fn admit(
    change: &Change<'_, '_>,
    ca: &Record<Ca>,
    leaf: &Certificate,
    requested: Option<String>,
) -> Result<()> {
    let claim = ca.spec.external_id_claim.as_ref().map(|claim| {
        claim
            .value_in(leaf)
            .ok_or(Error::Refused(Refusal::MissingCertClaim))
    });
    let claim = claim.transpose()?.filter(|id| !id.trim().is_empty());
    let id = Identity::new_id();
    let name = ca.spec.name_for(&ca.id, &id, leaf, requested.as_deref());
    // The holder of the certificate chose these texts, too.
    hidden_text::check("name", &name)?;
    claim
        .iter()
        .try_for_each(|claim| hidden_text::check("externalId", claim))?;
    let mut identity = Identity::named(free(change.read(), name)?);
    identity.role_attributes = ca.spec.identity_roles.clone();
    identity.external_id.clone_from(&claim);
    if let Some(external_id) = &claim
        && change.read().any::<Identity>("externalId", external_id)?
    {
        return Err(Error::CertificateInUse {
            fingerprint: leaf.fingerprint(),
        });
    }
    let identity = change
        .insert(Record::new(Id::from_text(id), change.now(), identity))?
        .id;
    if claim.is_some() {
        return Ok(());
    }
    let wanted = NewAuthenticator {
        identity,
        credential: Credential::certificate(leaf),
        ca: Some(ca.id.clone()),
        tags: Tags::default(),
    };
    authenticator::add(change, wanted).map(|_| ())
}

/// The first free one of: the name, the name with `000001` appended, that with `000002` appended,
/// and so on, as clients expect. Many devices may share a name. After [`MAX_SUFFIXES`] numbers the
/// search therefore doubles the last number until a name is free, and then bisects to a free number
/// whose predecessor is taken.
fn free(tx: &Read<'_>, mut name: String) -> Result<String> {
    let taken = |name: &str| tx.any::<Identity>("name", name);
    for number in 1..=MAX_SUFFIXES {
        if !taken(&name)? {
            return Ok(name);
        }
        name = format!("{name}{number:06}");
    }
    if !taken(&name)? {
        return Ok(name);
    }
    let numbered = |number: u32| format!("{name}{number:06}");
    let (mut low, mut high) = (0, 1);
    while taken(&numbered(high))? {
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if taken(&numbered(middle))? {
            low = middle
        } else {
            high = middle
        }
    }
    Ok(numbered(high))
}
