//! The secrets that the configuration names by files: a password, a passphrase.

use std::{ops::RangeInclusive, path::Path};

use pki::{Passphrase, secret_of};
use zeroize::Zeroizing;

use super::value::InvalidValue;

/// The password in a file, if one is given by `key`. One trailing line end is removed. Never show
/// it; errors do not.
pub fn password(
    key: &'static str,
    file: Option<&Path>,
) -> Result<Option<Zeroizing<String>>, InvalidValue> {
    secret(key, file, "password", 5..=100)
}

/// The passphrase in a file, if one is given by `key`; one trailing line end is removed.
pub fn passphrase(
    key: &'static str,
    file: Option<&Path>,
) -> Result<Option<Passphrase>, InvalidValue> {
    Ok(secret(key, file, "passphrase", 8..=1000)?.map(Passphrase::from))
}

/// The text in a file, if one is given, without its trailing line end. Its number of characters
/// must be within `length`, and only its owner may be able to write the file.
fn secret(
    key: &'static str,
    path: Option<&Path>,
    what: &str,
    length: RangeInclusive<usize>,
) -> Result<Option<Zeroizing<String>>, InvalidValue> {
    let Some(path) = path else { return Ok(None) };
    let refusal = |reason: String| InvalidValue {
        key,
        reason: format!("{}: {reason}", path.display()),
    };
    let text = secret_of(path).map_err(|error| refusal(error.to_string()))?;
    let secret = text
        .strip_suffix("\r\n")
        .or_else(|| text.strip_suffix('\n'))
        .unwrap_or(&text);
    if !length.contains(&secret.chars().count()) {
        return Err(refusal(format!(
            "a {what} has {} to {} characters",
            length.start(),
            length.end()
        )));
    }
    Ok(Some(Zeroizing::new(secret.into())))
}
