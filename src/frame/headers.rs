//! The header section: a walk over it, and the check that the walk is sound.

use std::ops::Range;

use super::malformed::Malformed;

/// Bytes of a header with a number.
pub(super) const HEADER: usize = 12;
/// A message has at most this many headers.
pub const MOST_HEADERS: usize = 128;

/// Key and value of each header, in the order of the wire. Ends at the first that is not whole.
#[derive(Debug, Clone)]
pub struct Headers<'f> {
    section: &'f [u8],
    at: usize,
}

impl<'f> Headers<'f> {
    pub(super) fn of(section: &'f [u8]) -> Self {
        Self { section, at: 0 }
    }

    /// Key and place of the value of the next header; `None` at the end.
    fn step(&mut self) -> Option<Result<(i32, Range<usize>), Malformed>> {
        let rest = self.section.get(self.at..).filter(|rest| !rest.is_empty())?;
        let Some(([k0, k1, k2, k3, l0, l1, l2, l3], after)) = rest.split_first_chunk() else {
            return Some(Err(Malformed::Header(-1)));
        };
        let key = i32::from_le_bytes([*k0, *k1, *k2, *k3]);
        let length = usize::try_from(i32::from_le_bytes([*l0, *l1, *l2, *l3])).ok().filter(|length| *length <= after.len());
        let Some(length) = length else { return Some(Err(Malformed::Header(key))) };
        let start = self.at + 8;
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

/// The place of a header's value in the section.
pub(super) fn place(section: &[u8], key: i32) -> Option<Range<usize>> {
    let mut headers = Headers::of(section);
    while let Some(Ok((known, place))) = headers.step() {
        if known == key {
            return Some(place);
        }
    }
    None
}

/// Whether a section consists of whole headers, each key once.
pub(super) fn check(section: &[u8]) -> Result<(), Malformed> {
    let (mut headers, mut keys, mut count) = (Headers::of(section), [0; MOST_HEADERS], 0);
    while let Some(step) = headers.step() {
        let (key, _) = step?;
        if keys.iter().take(count).any(|known| *known == key) {
            return Err(Malformed::Repeated(key));
        }
        *keys.get_mut(count).ok_or(Malformed::TooManyHeaders { limit: MOST_HEADERS })? = key;
        count += 1;
    }
    Ok(())
}
