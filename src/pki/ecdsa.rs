//! ECDSA with SHA-512 on P-256 and P-384: the one combination that clients send in requests and ring does not verify.
//!
//! Only verification, so every value here is public and the time it takes may depend on them. Written after FIPS 186-5
//! section 6.4.2; points are added in Jacobian coordinates (x = X / Z^2, y = Y / Z^3), which spares an inversion per addition.

use super::{Error, KeyKind, PublicKey, Result, der};
use ring::digest;
use x509_parser::num_bigint::BigUint;

/// A short Weierstrass curve y^2 = x^3 - 3x + b over the field of `prime`, with a base point of prime `order`.
struct Curve {
    prime: BigUint,
    b: BigUint,
    order: BigUint,
    base: Affine,
    bytes: usize,
}

type Affine = (BigUint, BigUint);

/// A point on the way to a sum; the point at infinity is a `None` around it.
struct Jacobian {
    x: BigUint,
    y: BigUint,
    z: BigUint,
}

/// Verifies `signature` (the DER sequence of r and s) over the SHA-512 hash of `message`.
///
/// # Errors
/// [`Error::Unsupported`] for keys of other kinds, [`Error::BadSignature`].
pub(super) fn verify_sha512(key: &PublicKey, message: &[u8], signature: &[u8]) -> Result<()> {
    let curve = Curve::of(key.kind()?).ok_or(Error::Unsupported("signature algorithm"))?;
    let public = curve.read_point(key.parts()?.1).ok_or(Error::BadSignature)?;
    let (r, s) = read_signature(signature).map_err(|_| Error::BadSignature)?;
    let hash = digest::digest(&digest::SHA512, message);
    // the hash is longer than the order: its leftmost bits count
    let hash = BigUint::from_bytes_be(hash.as_ref().get(..curve.bytes).ok_or(Error::BadSignature)?);
    if curve.verifies(&public, &hash, &r, &s) == Some(true) { Ok(()) } else { Err(Error::BadSignature) }
}

fn read_signature(signature: &[u8]) -> Result<(BigUint, BigUint)> {
    match der::inside(der::SEQUENCE, signature)?.as_slice() {
        [r, s] => Ok((positive(r)?, positive(s)?)),
        _ => Err(Error::BadDer),
    }
}

fn positive(integer: &[u8]) -> Result<BigUint> {
    match der::content_of(der::INTEGER, integer)? {
        bytes @ [0..=0x7f, ..] => Ok(BigUint::from_bytes_be(bytes)),
        _ => Err(Error::BadDer),
    }
}

impl Curve {
    fn verifies(&self, public: &Affine, hash: &BigUint, r: &BigUint, s: &BigUint) -> Option<bool> {
        let zero = BigUint::ZERO;
        if *r == zero || *s == zero || *r >= self.order || *s >= self.order {
            return Some(false);
        }
        let inverse = s.modinv(&self.order)?;
        let by_base = hash * &inverse % &self.order;
        let by_key = r * &inverse % &self.order;
        let (x, _) = self.affine(&self.sum_of_products(&by_base, &by_key, public)?)?;
        Some(x % &self.order == *r)
    }

    /// `by_base` times the base point plus `by_key` times `public`, doubling once for both.
    fn sum_of_products(&self, by_base: &BigUint, by_key: &BigUint, public: &Affine) -> Option<Jacobian> {
        let both = self.add(self.add(None, &self.base), public).and_then(|sum| self.affine(&sum));
        let mut sum = None;
        for bit in (0..self.order.bits()).rev() {
            sum = sum.map(|sum| self.double(&sum));
            sum = match (by_base.bit(bit), by_key.bit(bit), &both) {
                (true, true, Some(both)) => self.add(sum, both),
                (true, false, _) => self.add(sum, &self.base),
                (false, true, _) => self.add(sum, public),
                (true, true, None) | (false, false, _) => sum,
            };
        }
        sum
    }

    /// Both curves have prime order, so no point but infinity is its own inverse and a double is never infinity.
    fn double(&self, Jacobian { x, y, z }: &Jacobian) -> Jacobian {
        let (zz, yy) = (self.times(z, z), self.times(y, y));
        let beta = self.times(x, &yy);
        // 3 x^2 + a z^4, with a = -3
        let alpha = self.times(&(self.minus(x, &zz) * 3u8), &(x + &zz));
        let x3 = self.minus(&self.times(&alpha, &alpha), &(&beta * 8u8));
        let y3 = self.minus(&self.times(&alpha, &self.minus(&(beta * 4u8), &x3)), &(self.times(&yy, &yy) * 8u8));
        Jacobian { x: x3, y: y3, z: self.times(&(y * 2u8), z) }
    }

    fn add(&self, left: Option<Jacobian>, (x2, y2): &Affine) -> Option<Jacobian> {
        let Some(left) = left else {
            return Some(Jacobian { x: x2.clone(), y: y2.clone(), z: BigUint::from(1u8) });
        };
        let Jacobian { x, y, z } = &left;
        let zz = self.times(z, z);
        let run = self.minus(&self.times(x2, &zz), x);
        let rise = self.minus(&self.times(y2, &self.times(&zz, z)), y);
        if run == BigUint::ZERO {
            return (rise == BigUint::ZERO).then(|| self.double(&left));
        }
        let square = self.times(&run, &run);
        let (cube, part) = (self.times(&square, &run), self.times(x, &square));
        let x3 = self.minus(&self.times(&rise, &rise), &(&cube + &part * 2u8));
        let y3 = self.minus(&self.times(&rise, &self.minus(&part, &x3)), &self.times(y, &cube));
        Some(Jacobian { x: x3, y: y3, z: self.times(z, &run) })
    }

    fn affine(&self, Jacobian { x, y, z }: &Jacobian) -> Option<Affine> {
        let inverse = z.modinv(&self.prime)?;
        let square = self.times(&inverse, &inverse);
        Some((self.times(x, &square), self.times(y, &self.times(&square, &inverse))))
    }

    fn times(&self, left: &BigUint, right: &BigUint) -> BigUint {
        left * right % &self.prime
    }

    fn minus(&self, left: &BigUint, right: &BigUint) -> BigUint {
        (left + &self.prime - right % &self.prime) % &self.prime
    }

    /// An uncompressed point that lies on the curve (SEC 1 section 2.3.4).
    fn read_point(&self, bytes: &[u8]) -> Option<Affine> {
        let [0x04, coordinates @ ..] = bytes else { return None };
        if coordinates.len() != 2 * self.bytes {
            return None;
        }
        let (x, y) = coordinates.split_at_checked(self.bytes)?;
        let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
        let right = (&x * &x * &x + (&self.prime - &x % &self.prime) * 3u8 + &self.b) % &self.prime;
        (x < self.prime && y < self.prime && &y * &y % &self.prime == right).then_some((x, y))
    }

    /// The parameters of FIPS 186-4 appendix D.1.2.
    fn of(kind: KeyKind) -> Option<Self> {
        match kind {
            KeyKind::P256 => Self::from_hex(P256, 32),
            KeyKind::P384 => Self::from_hex(P384, 48),
            KeyKind::Rsa | KeyKind::Ed25519 => None,
        }
    }

    fn from_hex([prime, b, order, x, y]: [&[u8]; 5], bytes: usize) -> Option<Self> {
        let number = |digits| BigUint::parse_bytes(digits, 16);
        Some(Self { prime: number(prime)?, b: number(b)?, order: number(order)?, base: (number(x)?, number(y)?), bytes })
    }
}

const P256: [&[u8]; 5] = [
    b"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
    b"5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
    b"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
    b"6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
    b"4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
];

const P384: [&[u8]; 5] = [
    b"fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
    b"b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
    b"ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
    b"aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
    b"3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
];
