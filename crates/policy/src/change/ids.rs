//! Ids of new records.

use std::time::SystemTime;

use model::clock::Timestamp;
use uuid::Uuid;

/// The digits of ids, in ASCII order, so that ids sort like the numbers they encode.
const BASE_62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE_36: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// 48 bits of time before 80 random bits, as in a UUID of version 7 (RFC 9562), in base 62.
///
/// Ids that ascend with time are stored next to each other: many new records share the pages that a
/// commit writes. The time is that of the system, not of the controller's clock; only the order of
/// ids depends on it.
pub(crate) fn long_id() -> String {
    digits(
        (u128::from(millis()) << 80) | (Uuid::new_v4().as_u128() >> 48),
        BASE_62,
        22,
    )
}

/// An id short enough to be typed: 12 letters and digits, 7 of the time and 5 random.
pub(crate) fn short_id() -> String {
    digits(u128::from(millis()), BASE_62, 7) + &digits(Uuid::new_v4().as_u128(), BASE_62, 5)
}

/// The format of session ids that clients expect: a `c`, 8 digits of the time and 16 random ones,
/// in lower case.
pub(crate) fn session_id() -> String {
    String::from("c")
        + &digits(u128::from(millis()), BASE_36, 8)
        + &digits(Uuid::new_v4().as_u128(), BASE_36, 16)
}

fn millis() -> u64 {
    u64::try_from(Timestamp::from(SystemTime::now()).millis()).unwrap_or_default()
}

/// The last `count` digits of a number, most significant first, so that texts sort like the
/// numbers.
fn digits(mut number: u128, alphabet: &[u8], count: usize) -> String {
    let base = alphabet.len();
    let mut text = vec!['0'; count];
    for digit in text.iter_mut().rev() {
        *digit = alphabet
            .get((number % base as u128) as usize)
            .map_or('0', |digit| char::from(*digit));
        number /= base as u128;
    }
    text.into_iter().collect()
}
