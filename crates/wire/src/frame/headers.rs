//! The header section: an iterator, and the check that it is well formed.

use std::ops::Range;

use super::malformed::Malformed;

/// The bytes of a header before its value.
const KEY_AND_LENGTH: usize = 8;
/// The length of a header with a u32 value.
pub(super) const HEADER: usize = KEY_AND_LENGTH + 4;
/// The maximum number of headers of a message.
pub(crate) const MAX_HEADERS: usize = 128;

/// Key and value of each header, in wire order. Ends at the first incomplete header.
#[derive(Debug, Clone)]
pub struct Headers<'f> {
    section: &'f [u8],
    at: usize,
}

impl<'f> Headers<'f> {
    pub(super) fn of(section: &'f [u8]) -> Self {
        Self { section, at: 0 }
    }

    /// The key and the position of the value of the next header; `None` at the end.
    fn step(&mut self) -> Option<Result<(i32, Range<usize>), Malformed>> {
        let rest = self
            .section
            .get(self.at..)
            .filter(|rest| !rest.is_empty())?;
        let Some(([k0, k1, k2, k3, l0, l1, l2, l3], after)) = rest.split_first_chunk() else {
            return Some(Err(Malformed::Header(-1)));
        };
        let key = i32::from_le_bytes([*k0, *k1, *k2, *k3]);
        let length = usize::try_from(i32::from_le_bytes([*l0, *l1, *l2, *l3]))
            .ok()
            .filter(|length| *length <= after.len());
        let Some(length) = length else {
            return Some(Err(Malformed::Header(key)));
        };
        let start = self.at + KEY_AND_LENGTH;
        self.at = start + length;
        Some(Ok((key, start..self.at)))
    }
}

impl<'f> Iterator for Headers<'f> {
    type Item = (i32, &'f [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, place) = self.step()?.ok()?;
        Some((key, self.section.get(place)?))
    }
}

/// The position of a header's value in the section.
pub(super) fn place(section: &[u8], key: i32) -> Option<Range<usize>> {
    let mut headers = Headers::of(section);
    while let Some(Ok((known, place))) = headers.step() {
        if known == key {
            return Some(place);
        }
    }
    None
}

/// The positions of the headers for which `keeps` holds, given their key and value.
pub(super) fn kept(section: &[u8], keeps: impl Fn(i32, &[u8]) -> bool) -> Vec<Range<usize>> {
    let (mut headers, mut kept) = (Headers::of(section), Vec::new());
    while let Some(Ok((key, place))) = headers.step() {
        let start = place.start - KEY_AND_LENGTH;
        if keeps(key, section.get(place).unwrap_or_default()) {
            kept.push(start..headers.at);
        }
    }
    kept
}

/// Whether a section consists of complete headers with distinct keys.
pub(super) fn check(section: &[u8]) -> Result<(), Malformed> {
    let (mut headers, mut keys, mut count) = (Headers::of(section), [0; MAX_HEADERS], 0);
    while let Some(step) = headers.step() {
        let (key, _) = step?;
        if keys.iter().take(count).any(|known| *known == key) {
            return Err(Malformed::Repeated(key));
        }
        *keys
            .get_mut(count)
            .ok_or(Malformed::TooManyHeaders { limit: MAX_HEADERS })? = key;
        count += 1;
    }
    Ok(())
}
