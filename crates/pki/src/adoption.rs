//! Adoption of the authority of another controller: its signing certificate and key, and the
//! authorities that its clients trust.

use super::{
    Certificate, CertificateAndKey, Error, KeyedCertificate, Material, PrivateKey, Result,
    chain::MAX_LENGTH,
};

/// The maximum number of authorities in a root bundle.
const MAX_BUNDLE: usize = 100;

/// Why the authority of another controller cannot be adopted; names the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdoptionError {
    /// A file cannot be read, or what it holds is not usable.
    #[error("{file}: {error}")]
    File { file: &'static str, error: Error },
    #[error("root bundle: more than {MAX_BUNDLE} certificates")]
    TooMany,
    #[error("root bundle: it has no certificates that lead from the signing certificate to a root")]
    NoRoot,
}

/// The authority of another controller, checked.
#[derive(Debug)]
pub struct Adoption {
    signing: KeyedCertificate,
    root: Certificate,
    /// The other authorities of the bundle.
    others: Vec<Certificate>,
}

impl Adoption {
    /// Checks a signing certificate (the authorities above it may follow), its key, and the bundle
    /// of authorities that clients trust; all PEM. `now` is in unix seconds.
    ///
    /// # Errors
    /// A file cannot be read, the key does not belong to the certificate,
    /// a certificate is not an authority, the signing certificate is not valid now, or no authority
    /// of the bundle leads from it to a root.
    pub fn read(
        signing: &str,
        key: &str,
        bundle: &str,
        now: i64,
    ) -> std::result::Result<Self, AdoptionError> {
        let of = |file: &'static str| move |error: Error| AdoptionError::File { file, error };
        let mut chain = Certificate::in_file(signing)
            .map_err(of("signing certificate"))?
            .into_iter();
        let first = chain
            .next()
            .ok_or_else(|| of("signing certificate")(Error::NoPem))?;
        let key = PrivateKey::in_file(key).map_err(of("signing key"))?;
        let signing = KeyedCertificate::new(first, key).map_err(of("signing key"))?;
        let mut authorities: Vec<Certificate> =
            Certificate::in_file(bundle).map_err(of("root bundle"))?;
        authorities.extend(chain);
        let certificate = signing.certificate().clone();
        let may_sign = |what| {
            move |ca: &Certificate| {
                if ca.may_sign() {
                    Ok(())
                } else {
                    Err(of(what)(Error::NotACa))
                }
            }
        };
        may_sign("signing certificate")(&certificate)?;
        authorities.iter().try_for_each(may_sign("root bundle"))?;
        if !certificate.valid_at(now) {
            return Err(of("signing certificate")(Error::Expired));
        }
        let mut others: Vec<Certificate> = Vec::new();
        for ca in authorities {
            if ca != certificate && !others.contains(&ca) {
                others.push(ca);
            }
        }
        if others.len() > MAX_BUNDLE {
            return Err(AdoptionError::TooMany);
        }
        let root = root_of(&certificate, &others)?;
        others.retain(|ca| *ca != root);
        Ok(Self {
            signing,
            root,
            others,
        })
    }

    /// Whether the root above the signing certificate is among `authorities`.
    pub fn is_below(&self, authorities: &[Certificate]) -> bool {
        authorities.contains(&self.root)
    }
}

/// The self-issued authority above a certificate, which may be itself.
///
/// # Errors
/// There is none. The error names a kind of key or an algorithm that is not supported, if the
/// search ended at such a signature.
fn root_of(
    signing: &Certificate,
    others: &[Certificate],
) -> std::result::Result<Certificate, AdoptionError> {
    let above = |below: &&Certificate| {
        let found = others
            .iter()
            .filter(|ca| !below.is_self_issued() && below.is_signed_by(ca));
        // Authorities may have signed each other: a root ends the search.
        let (roots, between): (Vec<_>, Vec<_>) = found.partition(|ca| ca.is_self_issued());
        roots.into_iter().chain(between).next()
    };
    let path: Vec<&Certificate> = std::iter::successors(Some(signing), above)
        .take(MAX_LENGTH)
        .collect();
    if let Some(root) = path.iter().find(|ca| ca.is_self_issued()) {
        return Ok((*root).clone());
    }
    let unsupported = path.last().and_then(|last| {
        others.iter().find_map(|ca| {
            last.check_signature(ca)
                .err()
                .filter(|error| matches!(error, Error::Unsupported(_)))
        })
    });
    Err(
        unsupported.map_or(AdoptionError::NoRoot, |error| AdoptionError::File {
            file: "root bundle",
            error,
        }),
    )
}

impl Material {
    /// The material in which the adopted authority signs new certificates. What the previous one
    /// issued stays valid. The key of the server stays; its leaf is issued again, with the same
    /// names.
    ///
    /// # Errors
    /// As [`Authority::open`](super::Authority::open) and
    /// [`Authority::issue_own`](super::Authority::issue_own).
    pub fn with_adopted(&self, adoption: &Adoption, now: i64) -> Result<Self> {
        let signing = adoption.signing.store();
        let root = CertificateAndKey {
            certificate: adoption.root.pem(),
            key: String::new().into(),
        };
        let is_new = |pem: &&String| **pem != signing.certificate && **pem != root.certificate;
        let retired = std::iter::once(&self.intermediate.certificate).chain(&self.retired);
        let given: Vec<String> = adoption.others.iter().map(Certificate::pem).collect();
        let mut adopted: Vec<String> = Vec::new();
        for pem in given
            .iter()
            .chain(&self.adopted)
            .chain([&self.root.certificate])
            .filter(is_new)
        {
            if !adopted.contains(pem) {
                adopted.push(pem.clone());
            }
        }
        let retired = retired.filter(is_new).cloned().collect();
        Self {
            root,
            intermediate: signing,
            retired,
            adopted,
            ..self.clone()
        }
        .with_new_leaf(now)
    }

    /// Whether the authority was adopted: then the key of its root is elsewhere, and no new
    /// intermediate can be made.
    pub fn is_adopted(&self) -> bool {
        self.root.key.is_empty()
    }
}
