//! The text of rows of the history, packed: rows are short and have most words in common, so each is compressed (LZ4, block format) with
//! those words as its dictionary.
//!
//! Packed: `[1][length of the text u32, little endian][block]`. What a file up to format 2 holds is the text itself, which begins with a
//! brace.

use std::borrow::Cow;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use crate::error::{Error, Result};

/// What packed text begins with.
const PACKED: &[u8] = &[1];
/// What is common to rows, that of most rows last. What is packed with these words can only be read with them: others need another mark than
/// [`PACKED`].
const WORDS: &[u8] = include_bytes!("words.txt");
/// One byte of a block stands for at most so many of the text.
const MOST: usize = 255;

/// A text as it lies in the file.
///
/// # Errors
/// It has 4 GiB or more.
pub fn pack(text: &[u8]) -> Result<Vec<u8>> {
    let length = u32::try_from(text.len()).map_err(|_| Error::Internal("a row of the history is too long".into()))?;
    Ok([PACKED, &length.to_le_bytes(), &compress_with_dict(text, WORDS)].concat())
}

/// The text of what [`pack`] made, or an earlier release wrote; nothing if it is damaged.
pub fn unpack(stored: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(packed) = stored.strip_prefix(PACKED) else { return Some(stored.into()) };
    let (length, block) = packed.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // A length that was damaged must not cost memory.
    let text = (length <= block.len().saturating_mul(MOST)).then(|| decompress_with_dict(block, length, WORDS))?;
    text.ok().filter(|text| text.len() == length).map(Cow::Owned)
}
