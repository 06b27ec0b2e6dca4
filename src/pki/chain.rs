//! Chains and bundles as the texts that clients store.

use super::Certificate;

/// Longer chains exist only on purpose; also ends the walk where authorities signed each other.
const LONGEST: usize = 8;

/// The leaf, then each of `cas` that signed the one before. The self-signed root is left out: whoever needs the chain has it.
pub fn chain<'a>(leaf: &'a Certificate, cas: &'a [Certificate]) -> Vec<&'a Certificate> {
    let above = |below: &&'a Certificate| cas.iter().find(|ca| ca.may_sign() && !ca.is_self_issued() && below.is_signed_by(ca));
    std::iter::successors(Some(leaf), above).take(LONGEST).collect()
}

/// [`chain`] as PEM blocks, the leaf first.
pub fn chain_pem(leaf: &Certificate, cas: &[Certificate]) -> String {
    chain(leaf, cas).into_iter().map(Certificate::pem).collect()
}

/// The authorities among `certificates`, each once, as PEM blocks.
pub fn bundle_pem(certificates: &[Certificate]) -> String {
    authorities(certificates).into_iter().map(Certificate::pem).collect()
}

pub(super) fn authorities(certificates: &[Certificate]) -> Vec<&Certificate> {
    let mut found: Vec<&Certificate> = Vec::new();
    for certificate in certificates.iter().filter(|certificate| certificate.is_ca()) {
        if !found.contains(&certificate) {
            found.push(certificate);
        }
    }
    found
}
