//! Keys and certificates: issuing from requests, chains and their verification, bundles, tokens
//! signed with a certificate's key, the TLS configuration of listeners, the seal for stored
//! secrets, and the key derived from a passphrase.
//!
//! Not here: to whom a certificate belongs, which authority is trusted for what, where keys are
//! stored, and response formats. Callers pass the time (unix seconds); nothing in this crate reads
//! a clock.
//!
//! Start at [`Material::generate`] (the keys and certificates of a controller) and [`Authority`]
//! (what issues certificates with them). [`Verification`] judges a certificate that a client
//! presents; [`tls`] configures the handshake in which it is presented.
//!
//! Invariant: no type of this crate prints a private key or the text of a certificate in `Debug`,
//! and foreign bytes give an [`Error`], never a panic.

#![warn(unreachable_pub)]

mod adoption;
mod alternative_names;
mod authority;
mod authority_check;
mod certificate;
mod chain;
mod client_tls;
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
mod key_check;
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
mod session_signer;
mod signature;
pub mod tls;
mod token_verifier;
mod unsupported;
mod validity;
mod verification;

pub use adoption::{Adoption, AdoptionError};
pub use alternative_names::AlternativeNames;
pub use authority::Authority;
pub use certificate::Certificate;
pub use chain::chain;
pub use chain::{bundle_pem, chain_pem};
pub use client_tls::{ClientCertificate, client_config};
pub use csr::Csr;
pub use error::{Error, Result};
pub use external::{ExternalCertificate, Files, FilesError};
pub use file::{secret_of, text_of};
pub use jwk::PublicJwk;
pub use jwks::Verifiers;
pub use key::{KeyKind, PrivateKey, PublicKey};
pub use keystore::Keystore;
pub use keystore::{Next, Role};
pub use material::{CertificateAndKey, KeyedCertificate, Material};
pub use name::Name;
pub use passphrase::{Derivation, Passphrase};
pub use pkcs7::{certificates_of_base64, certificates_only, certificates_only_base64};
pub use seal::Seal;
pub use seal::random;
pub use server_verifier::ServerVerifier;
pub use session_signer::SessionSigner;
pub use token_verifier::TokenVerifier;
pub use validity::BACKDATE;
pub use validity::Validity;
pub use verification::{CertificatePurpose, LeafDates, Verification};
