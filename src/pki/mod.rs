//! Keys, certificates and what is made of them: issuing from requests, chains and their verification, bundles, tokens signed
//! with a certificate's key, the TLS side of the listeners, the seal on secrets at rest, and the key that comes of a passphrase.
//!
//! Deliberately not here: who a certificate belongs to, which authority is trusted for what, where keys are stored and how
//! anything of this looks in an answer. Callers bring the time along (unix seconds); nothing in this room reads a clock.
//!
//! Start reading at [`Material::generate`] (what a controller owns) and [`Authority`] (what it does with it); [`Verification`]
//! is how a certificate is judged that somebody presents, [`tls`] how it gets presented.
//!
//! Invariant: no type of this room shows a private key or the text of a certificate in its `Debug` output, and bytes from
//! outside lead to an [`Error`], never to a panic.

mod alternative_names;
mod authority;
mod certificate;
mod chain;
mod csr;
mod der;
mod ecdsa;
mod error;
mod external;
mod file;
mod jwk;
mod jwks;
pub mod jwt;
mod jwt_provider;
mod key;
mod keystore;
mod material;
mod name;
mod passphrase;
mod pem;
mod pkcs7;
mod pkcs8;
mod renewal;
mod rsa;
mod seal;
mod server_verifier;
mod signature;
mod soundness;
pub mod tls;
mod validity;
mod verification;

pub use alternative_names::AlternativeNames;
pub use authority::Authority;
pub use certificate::Certificate;
pub use chain::{bundle_pem, chain, chain_pem};
pub use csr::Csr;
pub use error::{Error, Result};
pub use external::{External, Files};
pub use file::{secret_of, text_of};
pub use jwk::PublicJwk;
pub use jwks::KeySet;
pub use key::{KeyKind, PrivateKey, PublicKey};
pub use keystore::{Keystore, Next, Role};
pub use material::{Credential, KeyedCertificate, Material};
pub use name::Name;
pub use passphrase::{Derivation, Passphrase};
pub use pkcs7::{certificates_only, certificates_only_base64};
pub use seal::{Seal, random};
pub use server_verifier::ServerVerifier;
pub use validity::{BACKDATE, Validity};
pub use verification::{LeafDates, Purpose, Verification};
