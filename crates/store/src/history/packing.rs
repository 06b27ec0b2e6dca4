//! The compression of history rows. Rows are short and have most words in common, so each is
//! compressed by itself (LZ4, block format) with a fixed dictionary.
//!
//! Packed: `[1][length of the text u32, little endian][block]`. Files up to format 2 hold the text
//! itself, which begins with a brace.

use std::borrow::Cow;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use model::error::{Error, Result};

/// The first byte of packed text.
const PACKED: &[u8] = &[1];
/// The dictionary: text common to rows, most frequent last. Text packed with this dictionary can
/// only be unpacked with it; another dictionary needs another first byte than [`PACKED`].
const FILTER_NAMES: &[u8] = include_bytes!("words.txt");
/// The greatest number of text bytes that one byte of a block can stand for.
const LIMIT: usize = 255;

/// Packs a text.
///
/// # Errors
/// [`Error::Internal`] if it has 4 GiB or more.
pub(crate) fn pack(text: &[u8]) -> Result<Vec<u8>> {
    let length = u32::try_from(text.len())
        .map_err(|_| Error::Internal("a row of the history is too long".into()))?;
    Ok([
        PACKED,
        &length.to_le_bytes(),
        &compress_with_dict(text, FILTER_NAMES),
    ]
    .concat())
}

/// Unpacks what [`pack`] made or an earlier release wrote; `None` if it is damaged.
pub(crate) fn unpack(stored: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(packed) = stored.strip_prefix(PACKED) else {
        return Some(stored.into());
    };
    let (length, block) = packed.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // A damaged length must not cause a large allocation.
    let text = (length <= block.len().saturating_mul(LIMIT))
        .then(|| decompress_with_dict(block, length, FILTER_NAMES))?;
    text.ok()
        .filter(|text| text.len() == length)
        .map(Cow::Owned)
}
