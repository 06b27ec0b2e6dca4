//! The check that a controller's keys, chain and dates fit together. The texts are for the operator
//! and contain no secret.

use super::{Certificate, Error, KeyedCertificate, Material, Result};

const OLD: &str = "an old intermediate";
const ADOPTED: &str = "an adopted authority";
const SHOWN: &str = "a certificate that listeners served";

impl Material {
    /// What does not fit together. Expiry is not checked: see [`Material::outside_validity`].
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let root = (!self.is_adopted()).then_some(("the root", &self.root));
        for (name, credential) in root.into_iter().chain([
            ("the intermediate", &self.intermediate),
            ("the server", &self.server),
        ]) {
            match KeyedCertificate::open(credential) {
                Ok(_) => {}
                Err(Error::KeyMismatch) => faults.push(format!(
                    "the key of {name} does not belong to its certificate"
                )),
                Err(error) => faults.push(format!(
                    "key or certificate of {name} cannot be read: {error}"
                )),
            }
        }
        let kept = self
            .retired
            .iter()
            .map(|pem| (OLD, pem))
            .chain(self.shown.iter().map(|pem| (SHOWN, pem)));
        let kept = kept.chain(self.adopted.iter().map(|pem| (ADOPTED, pem)));
        faults.extend(kept.filter_map(|(name, pem)| {
            Certificate::only(pem)
                .err()
                .map(|error| format!("{name} cannot be read: {error}"))
        }));
        if let Ok((root, below)) = self.chain() {
            faults.extend(
                (!root.may_sign() || !root.is_signed_by(&root))
                    .then(|| "the root is not a self-signed authority".to_owned()),
            );
            for link in &below {
                link.check(self.is_adopted(), &mut faults);
            }
        }
        faults
    }

    /// The certificates that have expired or are not valid yet.
    pub fn outside_validity(&self, now: i64) -> Vec<String> {
        let Ok((root, below)) = self.chain() else {
            return Vec::new();
        };
        let in_use = below
            .iter()
            .filter(|link| link.name != OLD)
            .map(|link| (link.name, &link.certificate));
        let late = [("the root", &root)]
            .into_iter()
            .chain(in_use)
            .filter(|(_, certificate)| !certificate.valid_at(now));
        late.map(|(name, certificate)| {
            format!(
                "the certificate of {name} {}",
                if certificate.not_after() < now {
                    "has expired"
                } else {
                    "is not valid yet"
                }
            )
        })
        .collect()
    }

    /// The root, and all certificates below it with their signers.
    fn chain(&self) -> Result<(Certificate, Vec<ChainLink>)> {
        let root = Certificate::only(&self.root.certificate)?;
        let signing = Certificate::only(&self.intermediate.certificate)?;
        let adopted = self
            .adopted
            .iter()
            .map(|pem| Certificate::only(pem))
            .collect::<Result<Vec<_>>>()?;
        let signer = |certificate: &Certificate| {
            adopted
                .iter()
                .find(|ca| certificate.is_signed_by(ca))
                .unwrap_or(&root)
                .clone()
        };
        let authority = |name, certificate: Certificate| ChainLink {
            name,
            signer: ("the root", signer(&certificate)),
            certificate,
            signs: true,
        };
        let mut links = vec![authority("the intermediate", signing.clone())];
        for retired in &self.retired {
            links.push(authority(OLD, Certificate::only(retired)?));
        }
        let leaf = Certificate::only(&self.server.certificate)?;
        links.push(ChainLink {
            name: "the server",
            certificate: leaf,
            signer: ("the intermediate", signing),
            signs: false,
        });
        Ok((root, links))
    }
}

/// A certificate and its signer.
struct ChainLink {
    name: &'static str,
    certificate: Certificate,
    signer: (&'static str, Certificate),
    /// Whether it has to be an authority.
    signs: bool,
}

impl ChainLink {
    /// Adds the faults of this certificate. An adopted intermediate may expire later than its root,
    /// because other programs issue such certificates.
    fn check(&self, is_adopted: bool, faults: &mut Vec<String>) {
        let Self {
            name,
            certificate,
            signer: (above, signer),
            signs,
        } = self;
        match certificate.check_signature(signer) {
            Err(Error::OtherIssuer | Error::BadSignature) => {
                faults.push(format!("{name} is not signed by {above}"))
            }
            Err(error) => faults.push(format!(
                "the signature of {name} cannot be verified: {error}"
            )),
            Ok(()) if certificate.not_after() > signer.not_after() && !(is_adopted && *signs) => {
                faults.push(format!("{name} expires later than {above}"));
            }
            Ok(()) => {}
        }
        if certificate.not_before() > certificate.not_after() {
            faults.push(format!("{name} ends before it begins"));
        }
        if *signs && !certificate.may_sign() {
            faults.push(format!("{name} is not an authority"));
        }
    }
}
