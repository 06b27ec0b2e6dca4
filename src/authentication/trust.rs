//! Whose certificates are believed: those of this controller, and those of other authorities that have proven themselves.

use crate::{
    entity::{Ca, Record},
    error::Result,
    pki::{Certificate, Keystore, LeafDates, Purpose, Verification},
    store::Read,
};

/// How strictly a chain is judged.
#[derive(Debug, Clone, Copy)]
pub struct Judgement {
    pub purpose: Purpose,
    pub leaf_dates: LeafDates,
    /// Unix seconds.
    pub now: i64,
}

impl Judgement {
    /// Whoever holds a certificate logs in with it, whatever it was made for; its policy judges its dates.
    pub fn of_login(now: i64) -> Self {
        Self { purpose: Purpose::Any, leaf_dates: LeafDates::Ignore, now }
    }

    /// To enroll, a certificate must be meant for clients and in time.
    pub fn of_enrollment(now: i64) -> Self {
        Self { purpose: Purpose::Client, leaf_dates: LeafDates::Enforce, now }
    }
}

/// Whether this controller's own authority stands above a chain, leaf first.
pub fn is_ours(keystore: &Keystore, chain: &[Certificate], how: Judgement) -> bool {
    let authority = keystore.authority();
    let cas = authority.cas();
    let Judgement { purpose, leaf_dates, now } = how;
    Verification { anchors: cas, intermediates: cas, now, purpose, leaf_dates }.anchor_of(chain).is_ok()
}

/// The authority above a chain, leaf first, of those that `admitted` lets take part; of several the one with the smallest id.
///
/// # Errors
/// A record cannot be read.
pub fn authority(
    tx: &Read<'_>,
    chain: &[Certificate],
    how: Judgement,
    admitted: impl Fn(&Record<Ca>) -> bool,
) -> Result<Option<Record<Ca>>> {
    let mut cas = Vec::new();
    tx.each::<Ca>(|ca| {
        cas.extend(admitted(&ca).then_some(ca));
        Ok(())
    })?;
    Ok(above(cas, chain, how))
}

/// The one of these authorities that stands above a chain, leaf first.
pub fn above(mut cas: Vec<Record<Ca>>, chain: &[Certificate], how: Judgement) -> Option<Record<Ca>> {
    let anchors: Vec<Anchor> = cas.iter().enumerate().flat_map(|(of, ca)| anchors_of(of, ca)).collect();
    let Judgement { purpose, leaf_dates, now } = how;
    let judge = Verification { anchors: &anchors, intermediates: &[], now, purpose, leaf_dates };
    let of = judge.anchor_of(chain).ok()?.of;
    (of < cas.len()).then(|| cas.swap_remove(of))
}

fn anchors_of(of: usize, ca: &Record<Ca>) -> impl Iterator<Item = Anchor> + use<> {
    ca.spec.certificates().into_iter().flatten().map(move |certificate| Anchor { of, certificate })
}

/// One certificate of an authority, and which of a list of authorities that is.
struct Anchor {
    of: usize,
    certificate: Certificate,
}

impl AsRef<Certificate> for Anchor {
    fn as_ref(&self) -> &Certificate {
        &self.certificate
    }
}
