//! Generation of an RSA key, which ring does not support.
//!
//! The server's key has to be RSA: the C library of most clients in use verifies enrollment tokens
//! with RS256 only. The two primes come from `crypto-primes`; the rest is the arithmetic of RFC
//! 8017 section 3.2. It runs once in the life of a controller, on its own host, so that its timing
//! reveals nothing. ring checks the whole key when it reads it.

use super::der::{self, INTEGER, OBJECT_IDENTIFIER, SEQUENCE};
use super::{Error, Result, pkcs8::wrapped};
use crypto_bigint::{
    U1024,
    rand_core::{TryCryptoRng, TryRng},
};
use crypto_primes::{
    Flavor,
    hazmat::{SetBits, SmallFactorsSieveFactory},
    is_prime, sieve_and_find,
};
use num_bigint::BigUint;
use ring::rand::{SecureRandom, SystemRandom};
use std::convert::Infallible;

/// Bits of the modulus.
const BITS: u32 = 2048;
const PUBLIC_EXPONENT: u32 = 65_537;
/// rsaEncryption (RFC 8017), with the NULL for no parameters.
pub(super) const ALGORITHM: &[u8] = &[
    OBJECT_IDENTIFIER,
    0x09,
    0x2a,
    0x86,
    0x48,
    0x86,
    0xf7,
    0x0d,
    0x01,
    0x01,
    0x01,
    0x05,
    0x00,
];

/// A new key of 2048 bits as PKCS#8 (RFC 5958).
///
/// # Errors
/// [`Error::Internal`] if there is no randomness.
pub(super) fn generate() -> Result<Vec<u8>> {
    let (p, q) = (prime()?, prime()?);
    let (p, q) = if p > q { (p, q) } else { (q, p) };
    let one = BigUint::from(1_u32);
    let (p1, q1) = (&p - &one, &q - &one);
    let e = BigUint::from(PUBLIC_EXPONENT);
    let unlucky = || Error::Internal("unusable primes".into());
    let d = e.modinv(&(&p1 * &q1)).ok_or_else(unlucky)?;
    let coefficient = q.modinv(&p).ok_or_else(unlucky)?;
    let numbers = [
        &(&p * &q),
        &e,
        &d,
        &p,
        &q,
        &(&d % &p1),
        &(&d % &q1),
        &coefficient,
    ]
    .map(integer);
    let key = der::element(
        SEQUENCE,
        &[integer(&BigUint::default()), numbers.concat()].concat(),
    );
    Ok(wrapped(ALGORITHM, &key))
}

/// A random prime with half the bits of the modulus, usable with the public exponent. Both top bits
/// are set, so that the product of two has all bits.
fn prime() -> Result<BigUint> {
    let mut source = Source {
        random: SystemRandom::new(),
        failed: false,
    };
    let internal = |reason: &str| Error::Internal(format!("a prime: {reason}"));
    let fits = |candidate: &U1024| {
        number(candidate) % PUBLIC_EXPONENT != BigUint::from(1_u32)
            && is_prime(Flavor::Any, candidate)
    };
    let sieve = SmallFactorsSieveFactory::new(Flavor::Any, BITS / 2, SetBits::TwoMsb)
        .map_err(|e| internal(&e.to_string()))?;
    let found = sieve_and_find(&mut source, sieve, |_, candidate| fits(candidate))
        .map_err(|e| internal(&e.to_string()))?;
    let prime = found.ok_or_else(|| internal("none found"))?;
    if source.failed {
        Err(internal("no randomness"))
    } else {
        Ok(number(&prime))
    }
}

fn number(value: &U1024) -> BigUint {
    BigUint::from_bytes_be(value.to_be_bytes().as_ref())
}

/// A DER integer of a value that is not negative.
fn integer(value: &BigUint) -> Vec<u8> {
    let bytes = value.to_bytes_be();
    let padding: &[u8] = if bytes.first().is_some_and(|first| *first >= 0x80) {
        &[0]
    } else {
        &[]
    };
    der::element(INTEGER, &[padding, &bytes].concat())
}

/// The system's randomness. The search cannot return an error, so that a failure is recorded here.
struct Source {
    random: SystemRandom,
    failed: bool,
}

impl TryRng for Source {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> std::result::Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> std::result::Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> std::result::Result<(), Infallible> {
        self.failed |= self.random.fill(bytes).is_err();
        Ok(())
    }
}

impl TryCryptoRng for Source {}
