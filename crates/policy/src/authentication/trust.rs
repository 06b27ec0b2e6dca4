//! Trusted certificate authorities: this controller's own, and verified third-party ones.

use model::{
    entity::{Ca, Record},
    error::Result,
};
use pki::{Certificate, CertificatePurpose, Keystore, LeafDates, Verification};
use store::Read;

/// How strictly a chain is checked.
#[derive(Debug, Clone, Copy)]
pub struct ChainPolicy {
    pub(crate) purpose: CertificatePurpose,
    pub(crate) leaf_dates: LeafDates,
    /// Unix seconds.
    pub now: i64,
}

impl ChainPolicy {
    /// For a login: a certificate of any purpose; the auth policy decides about its dates.
    pub fn of_login(now: i64) -> Self {
        Self {
            purpose: CertificatePurpose::Any,
            leaf_dates: LeafDates::Ignore,
            now,
        }
    }

    /// For an enrollment: the certificate must be for clients and within its dates.
    pub(crate) fn of_enrollment(now: i64) -> Self {
        Self {
            purpose: CertificatePurpose::Client,
            leaf_dates: LeafDates::Enforce,
            now,
        }
    }
}

/// Whether this controller's own authority issued a chain (leaf first).
pub fn is_ours(keystore: &Keystore, chain: &[Certificate], how: ChainPolicy) -> bool {
    let authority = keystore.authority();
    let cas = authority.cas();
    let ChainPolicy {
        purpose,
        leaf_dates,
        now,
    } = how;
    Verification {
        anchors: cas,
        intermediates: cas,
        now,
        purpose,
        leaf_dates,
    }
    .anchor_of(chain)
    .is_ok()
}

/// The authority that issued a chain (leaf first), among those that `admitted` accepts; the
/// smallest id if several did.
///
/// # Errors
/// A record cannot be read.
pub fn authority(
    tx: &Read<'_>,
    chain: &[Certificate],
    how: ChainPolicy,
    admitted: impl Fn(&Record<Ca>) -> bool,
) -> Result<Option<Record<Ca>>> {
    let mut cas = Vec::new();
    tx.each::<Ca>(|ca| {
        cas.extend(admitted(&ca).then_some(ca));
        Ok(())
    })?;
    Ok(above(cas, chain, how))
}

/// The authority, among these, that issued a chain (leaf first).
pub(crate) fn above(
    mut cas: Vec<Record<Ca>>,
    chain: &[Certificate],
    how: ChainPolicy,
) -> Option<Record<Ca>> {
    let anchors: Vec<AuthorityAnchor> = cas
        .iter()
        .enumerate()
        .flat_map(|(of, ca)| anchors_of(of, ca))
        .collect();
    let ChainPolicy {
        purpose,
        leaf_dates,
        now,
    } = how;
    let verification = Verification {
        anchors: &anchors,
        intermediates: &[],
        now,
        purpose,
        leaf_dates,
    };
    let of = verification.anchor_of(chain).ok()?.of;
    (of < cas.len()).then(|| cas.swap_remove(of))
}

/// Why no authority admits a certificate by itself: the reason of the first of those with the name
/// of its issuer, this controller's own before third parties' verified ones. The text is half a
/// sentence, for administrators.
///
/// # Errors
/// A record cannot be read.
pub fn refusal(
    tx: &Read<'_>,
    keystore: &Keystore,
    certificate: &Certificate,
    now: i64,
) -> Result<String> {
    let mut named: Vec<Certificate> = keystore
        .authority()
        .cas()
        .iter()
        .filter(|ca| ca.subject() == certificate.issuer())
        .cloned()
        .collect();
    tx.each::<Ca>(|ca| {
        if ca.state.is_verified {
            named.extend(
                ca.spec
                    .certificates()
                    .into_iter()
                    .flatten()
                    .filter(|ca| ca.subject() == certificate.issuer()),
            );
        }
        Ok(())
    })?;
    let unknown = || "is not signed by a trusted certificate authority".to_owned();
    Ok(named.first().map_or_else(unknown, |authority| {
        certificate.refusal_below(authority, now)
    }))
}

fn anchors_of(of: usize, ca: &Record<Ca>) -> impl Iterator<Item = AuthorityAnchor> + use<> {
    ca.spec
        .certificates()
        .into_iter()
        .flatten()
        .map(move |certificate| AuthorityAnchor { of, certificate })
}

/// A certificate of an authority; `of` is the authority's index in a list.
struct AuthorityAnchor {
    of: usize,
    certificate: Certificate,
}

impl AsRef<Certificate> for AuthorityAnchor {
    fn as_ref(&self) -> &Certificate {
        &self.certificate
    }
}
