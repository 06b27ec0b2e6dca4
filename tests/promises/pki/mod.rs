//! Keys, requests, certificates, chains, tokens and TLS, compared with the `openssl` program
//! wherever a format is shared.

mod arbitrary_input;
mod bundles;
mod controller_material;
mod issued;
mod keys;
mod requests;
mod tls;
mod tokens;
mod verification;

use std::time::SystemTime;

use pki::{AlternativeNames, Authority, Certificate, Csr, Material, Validity};

pub use arbitrary_input::{read_every_way, samples};

const DAY: i64 = 24 * 60 * 60;
const YEAR: i64 = 365 * DAY;

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        .try_into()
        .unwrap()
}

fn hosts() -> AlternativeNames {
    AlternativeNames::of_hosts(["ctrl.test", "127.0.0.1", "[::1]"])
}

fn material() -> Material {
    Material::generate(&hosts(), now()).unwrap()
}

fn client(authority: &Authority, csr: &str, validity: Validity) -> Certificate {
    authority
        .issue_client(
            &Csr::parse(csr).unwrap(),
            &AlternativeNames::default(),
            validity,
        )
        .unwrap()
}
