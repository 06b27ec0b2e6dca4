//! Chains and bundles as PEM texts for clients.

use super::Certificate;

/// The greatest length of a chain; it also ends the search if authorities signed each other.
pub(super) const MAX_LENGTH: usize = 8;

/// The leaf, then each of `cas` that signed the previous one. The self-signed root is left out,
/// because a verifier must have it already.
pub fn chain<'a>(leaf: &'a Certificate, cas: &'a [Certificate]) -> Vec<&'a Certificate> {
    let above = |below: &&'a Certificate| {
        cas.iter()
            .find(|ca| ca.may_sign() && !ca.is_self_issued() && below.is_signed_by(ca))
    };
    std::iter::successors(Some(leaf), above)
        .take(MAX_LENGTH)
        .collect()
}

/// [`chain`] as PEM blocks, leaf first.
pub fn chain_pem(leaf: &Certificate, cas: &[Certificate]) -> String {
    chain(leaf, cas).into_iter().map(Certificate::pem).collect()
}

/// The authorities among `certificates` as PEM blocks, without duplicates.
pub fn bundle_pem(certificates: &[Certificate]) -> String {
    authorities(certificates)
        .into_iter()
        .map(Certificate::pem)
        .collect()
}

pub(super) fn authorities(certificates: &[Certificate]) -> Vec<&Certificate> {
    let mut found: Vec<&Certificate> = Vec::new();
    for certificate in certificates
        .iter()
        .filter(|certificate| certificate.is_ca())
    {
        if !found.contains(&certificate) {
            found.push(certificate);
        }
    }
    found
}
