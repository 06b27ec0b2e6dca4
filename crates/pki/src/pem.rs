//! PEM (RFC 7468) with positions, because callers care about text before, between and after the
//! blocks.

use super::{Error, Result};
use ::pem::{EncodeConfig, LineEnding, Pem};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// The first block and the text after it. Text before it is skipped.
pub(super) fn first(text: &str) -> Result<(Pem, &str)> {
    let (block, rest) = cut(text).ok_or(Error::NoPem)?;
    Ok((::pem::parse(block).map_err(|_| Error::NoPem)?, rest))
}

/// All blocks, at least one. Text before the first is skipped; only white space may be between and
/// after them.
pub(super) fn all(text: &str) -> Result<Vec<Pem>> {
    let (block, mut rest) = first(text)?;
    let mut blocks = vec![block];
    while !rest.trim().is_empty() {
        if !rest.trim_start().starts_with(BEGIN) {
            return Err(Error::Trailing);
        }
        let (block, behind) = first(rest)?;
        blocks.push(block);
        rest = behind;
    }
    Ok(blocks)
}

/// All blocks, at least one, in the text of a file that an operator named: any text may be around
/// them (RFC 7468 section 2).
pub(super) fn in_file(text: &str) -> Result<Vec<Pem>> {
    let (block, mut rest) = first(text)?;
    let mut blocks = vec![block];
    while rest.contains(BEGIN) {
        let (block, behind) = first(rest)?;
        blocks.push(block);
        rest = behind;
    }
    Ok(blocks)
}

/// The only block: as [`all`], but a second one is [`Error::Trailing`].
pub(super) fn only(text: &str) -> Result<Pem> {
    match first(text)? {
        (block, rest) if rest.trim().is_empty() => Ok(block),
        _ => Err(Error::Trailing),
    }
}

/// One block; every line ends with a line feed.
pub(super) fn write(label: &str, der: &[u8]) -> String {
    ::pem::encode_config(
        &Pem::new(label, der),
        EncodeConfig::new().set_line_ending(LineEnding::LF),
    )
}

fn cut(text: &str) -> Option<(&str, &str)> {
    let from_begin = text.get(text.find(BEGIN)?..)?;
    let label = from_begin.find(END)? + END.len();
    let behind = label + from_begin.get(label..)?.find(DASHES)? + DASHES.len();
    from_begin.split_at_checked(behind)
}
