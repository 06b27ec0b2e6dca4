//! Verification of a presented certificate: whether a chain leads from it to a trusted authority.
//!
//! There are two ways. webpki judges everything it can. Our own path judges leaves that webpki
//! rejects by type: version 1 (made by `openssl x509 -req`), an authority's own certificate used as
//! a client, one with critical policies, and, if the leaf's dates are ignored, an expired one.
//! (Asking webpki about the leaf's last second instead would fail if the authority has been renewed
//! since.) The own path understands less than webpki and therefore rejects more: certificates with
//! name constraints must go through webpki.
//!
//! On both ways a certificate above the leaf must be an authority by its basic constraints, must
//! have `keyCertSign` if it has a key usage extension (RFC 5280 section 4.2.1.3), and must have no
//! critical extension that is not processed here. webpki checks only the first point, and for an
//! anchor none, so that all are checked again here.

use super::{Certificate, Error, Result, signature::ALGORITHMS};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::cell::Cell;
use std::time::Duration;
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext, VerifiedPath,
};

/// The greatest number of presented certificates used after the leaf, and of authorities in a path
/// below the anchor.
const MAX_LENGTH: usize = 8;
/// The greatest number of signatures verified for one answer on the own path; matching names can be
/// made at no cost.
const SIGNATURES: u32 = 16;

/// The use that the certificate is presented for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificatePurpose {
    /// Any use: extended key usage is not checked.
    Any,
    /// A TLS client: no extended key usage, `clientAuth` or `anyExtendedKeyUsage`.
    Client,
}

/// Whether an expired leaf is accepted. One that is not valid yet never is, and the dates of the
/// authorities above it are always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafDates {
    Enforce,
    /// The end of its validity is not checked.
    Ignore,
}

/// The inputs of a verification, apart from the presented chain.
#[derive(Debug)]
pub struct Verification<'a, A> {
    /// The trusted certificates: roots or intermediates, or types that contain one. One that is not
    /// an authority, or is outside of its dates, is not used.
    pub anchors: &'a [A],
    /// Known intermediates, for clients that present only their leaf.
    pub intermediates: &'a [Certificate],
    /// Unix seconds.
    pub now: i64,
    pub purpose: CertificatePurpose,
    pub leaf_dates: LeafDates,
}

impl<'a, A: AsRef<Certificate>> Verification<'a, A> {
    /// The anchor above the presented chain, leaf first. If there are several, the first one found.
    ///
    /// # Errors
    /// [`Error::Untrusted`], also for an empty chain; [`Error::Expired`] for a leaf that has
    /// expired, if its dates are enforced, or is not valid yet; [`Error::WrongUsage`].
    pub fn anchor_of(&self, presented: &[Certificate]) -> Result<&'a A> {
        let (leaf, rest) = presented.split_first().ok_or(Error::Untrusted)?;
        let in_time = leaf.valid_at(self.now);
        if !in_time && (self.leaf_dates == LeafDates::Enforce || self.now < leaf.not_before()) {
            return Err(Error::Expired);
        }
        let helpers: Vec<&Certificate> = rest
            .iter()
            .take(MAX_LENGTH)
            .chain(self.intermediates)
            .collect();
        if !in_time || !leaf.suits_webpki() {
            return self.by_own_path(leaf, &helpers);
        }
        let authorities = || {
            self.anchors
                .iter()
                .map(A::as_ref)
                .chain(helpers.iter().copied())
        };
        match self.by_webpki(leaf, &helpers) {
            Err(Error::Untrusted) if authorities().any(Certificate::has_policies) => {
                self.by_own_path(leaf, &helpers)
            }
            judged => judged,
        }
    }

    fn by_webpki(&self, leaf: &Certificate, helpers: &[&Certificate]) -> Result<&'a A> {
        let usable =
            |anchor: &&A| anchor.as_ref().may_anchor(0) && anchor.as_ref().valid_at(self.now);
        let (holders, anchors): (Vec<&'a A>, Vec<_>) = self
            .anchors
            .iter()
            .filter(usable)
            .filter_map(|anchor| {
                Some((
                    anchor,
                    webpki::anchor_from_trusted_cert(anchor.as_ref().der()).ok()?,
                ))
            })
            .unzip();
        let helpers: Vec<CertificateDer<'_>> = helpers
            .iter()
            .map(|helper| CertificateDer::from(helper.der().as_ref()))
            .collect();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(
            u64::try_from(self.now).unwrap_or_default(),
        ));
        let leaf = EndEntityCert::try_from(leaf.der()).map_err(|_| Error::Untrusted)?;
        // webpki checks only an anchor's name and key. The other properties of its certificate are
        // checked here; of several anchors with the same name and key any will do.
        let above = |path: &VerifiedPath<'_>| {
            let below = u32::try_from(path.intermediate_certificates().count()).unwrap_or(u32::MAX);
            let holds =
                |holder: &&A| holder.as_ref().may_anchor(below) && self.suits(holder.as_ref());
            let same = anchors
                .iter()
                .zip(&holders)
                .filter(|(anchor, _)| *anchor == path.anchor());
            same.map(|(_, holder)| *holder).find(holds)
        };
        // webpki itself checks the path lengths of the intermediates.
        let may_sign = |der: CertificateDer<'_>| {
            Certificate::from_der(&der).is_ok_and(|between| between.may_anchor(0))
        };
        let bound = |path: &VerifiedPath<'_>| {
            let between = path
                .intermediate_certificates()
                .all(|between| may_sign(between.der()));
            above(path)
                .filter(|_| between)
                .map(drop)
                .ok_or(webpki::Error::UnknownIssuer)
        };
        let algorithms = &ALGORITHMS;
        let path = leaf.verify_for_usage(
            algorithms,
            &anchors,
            &helpers,
            now,
            self.purpose,
            None,
            Some(&bound),
        );
        let path = path.map_err(|refused| match refused {
            webpki::Error::RequiredEkuNotFoundContext(_) => Error::WrongUsage,
            _ => Error::Untrusted,
        })?;
        above(&path).ok_or(Error::Untrusted)
    }

    fn by_own_path(&self, leaf: &Certificate, helpers: &[&Certificate]) -> Result<&'a A> {
        if leaf.is_strict() || self.anchors.is_empty() {
            return Err(Error::Untrusted);
        }
        if !self.suits(leaf) {
            return Err(Error::WrongUsage);
        }
        self.find_anchor(leaf, helpers, 0, &Cell::new(SIGNATURES))
            .ok_or(Error::Untrusted)
    }

    /// Depth first: an anchor that signed `certificate`, otherwise an authority that did, and on
    /// from there.
    fn find_anchor(
        &self,
        certificate: &Certificate,
        helpers: &[&Certificate],
        below: usize,
        budget: &Cell<u32>,
    ) -> Option<&'a A> {
        let signed = |by: &Certificate| {
            self.may_sign(by, below)
                && take_verification(budget, certificate, by)
                && certificate.is_signed_by(by)
        };
        if let Some(anchor) = self
            .anchors
            .iter()
            .find(|anchor| signed((*anchor).as_ref()))
        {
            return Some(anchor);
        }
        if below == MAX_LENGTH {
            return None;
        }
        helpers
            .iter()
            .filter(|helper| signed(helper))
            .find_map(|helper| self.find_anchor(helper, helpers, below + 1, budget))
    }

    fn may_sign(&self, authority: &Certificate, below: usize) -> bool {
        let below = u32::try_from(below).unwrap_or(u32::MAX);
        authority.may_sign_above(below) && authority.valid_at(self.now) && self.suits(authority)
    }

    fn suits(&self, certificate: &Certificate) -> bool {
        self.purpose == CertificatePurpose::Any || certificate.is_for_clients()
    }
}

/// Counts a signature before it is verified; false once the limit is reached. Names that do not
/// match are not counted.
fn take_verification(budget: &Cell<u32>, certificate: &Certificate, by: &Certificate) -> bool {
    if certificate.issuer() != by.subject() {
        return false;
    }
    let left = budget.get();
    budget.set(left.saturating_sub(1));
    left > 0
}

impl ExtendedKeyUsageValidator for CertificatePurpose {
    fn validate(
        &self,
        present: KeyPurposeIdIter<'_, '_>,
    ) -> std::result::Result<(), webpki::Error> {
        if *self == Self::Any {
            return Ok(());
        }
        let admitted = [
            KeyPurposeId::new(&[43, 6, 1, 5, 5, 7, 3, 2]),
            KeyPurposeId::new(&[85, 29, 37, 0]),
        ];
        let mut others = Vec::new();
        for purpose in present {
            let purpose = purpose?;
            if admitted.contains(&purpose) {
                return Ok(());
            }
            others.push(purpose.to_decoded_oid());
        }
        if others.is_empty() {
            return Ok(());
        }
        let refused = RequiredEkuNotFoundContext {
            required: KeyUsage::client_auth(),
            present: others,
        };
        Err(webpki::Error::RequiredEkuNotFoundContext(refused))
    }
}
