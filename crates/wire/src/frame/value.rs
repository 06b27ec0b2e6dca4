//! Composite values of headers: lists and maps. Counts and lengths are u32, little endian.

/// A list or map has at most this many entries.
pub const MAX_ENTRIES: usize = 128;
/// A key or value of a list or map has at most this many bytes.
pub const MAX_BYTES: usize = 8192;

/// Why bytes are not a value of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAValue {
    #[error("it ends in the middle of an entry")]
    Short,
    #[error("{0} bytes follow the last entry")]
    Rest(usize),
    #[error("{0} entries; at most {MAX_ENTRIES} are allowed")]
    Entries(u32),
    #[error("a text of {0} bytes; at most {MAX_BYTES} are allowed")]
    Bytes(u32),
    #[error("a text is not valid UTF-8")]
    Utf8,
}

/// Decodes a list of texts. No bytes mean an empty list.
///
/// # Errors
/// The bytes are not such a list.
pub fn texts(bytes: &[u8]) -> Result<Vec<&str>, NotAValue> {
    entries(bytes, |reader| reader.text())
}

/// Decodes a map of numbers to bytes. No bytes mean an empty map.
///
/// # Errors
/// The bytes are not such a map.
pub fn bytes_by_number(bytes: &[u8]) -> Result<Vec<(u32, &[u8])>, NotAValue> {
    entries(bytes, |reader| Ok((reader.number()?, reader.bytes()?)))
}

/// Decodes a map of texts to texts. No bytes mean an empty map.
///
/// # Errors
/// The bytes are not such a map.
pub fn texts_by_text(bytes: &[u8]) -> Result<Vec<(&str, &str)>, NotAValue> {
    entries(bytes, |reader| Ok((reader.text()?, reader.text()?)))
}

/// Encodes a list of texts; an empty one is no bytes.
pub fn of_texts(texts: &[impl AsRef<str>]) -> Vec<u8> {
    write(texts, |text, to| put(text.as_ref().as_bytes(), to))
}

/// Encodes a map of numbers to bytes; an empty one is a count of 0.
pub fn of_bytes_by_number(map: &[(u32, impl AsRef<[u8]>)]) -> Vec<u8> {
    counted(map, |(number, bytes), to| {
        to.extend(number.to_le_bytes());
        put(bytes.as_ref(), to);
    })
}

/// Encodes a map of texts to texts; an empty one is a count of 0.
pub fn of_texts_by_text(map: &[(impl AsRef<str>, impl AsRef<str>)]) -> Vec<u8> {
    counted(map, |(key, text), to| {
        put(key.as_ref().as_bytes(), to);
        put(text.as_ref().as_bytes(), to);
    })
}

struct Reader<'v>(&'v [u8]);

impl<'v> Reader<'v> {
    fn number(&mut self) -> Result<u32, NotAValue> {
        let (number, rest) = self.0.split_first_chunk().ok_or(NotAValue::Short)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Result<&'v [u8], NotAValue> {
        let announced = self.number()?;
        let length = usize::try_from(announced)
            .ok()
            .filter(|length| *length <= MAX_BYTES)
            .ok_or(NotAValue::Bytes(announced))?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(NotAValue::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'v str, NotAValue> {
        std::str::from_utf8(self.bytes()?).map_err(|_| NotAValue::Utf8)
    }
}

fn entries<'v, T>(
    bytes: &'v [u8],
    read: impl Fn(&mut Reader<'v>) -> Result<T, NotAValue>,
) -> Result<Vec<T>, NotAValue> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader(bytes);
    let announced = reader.number()?;
    let count = usize::try_from(announced)
        .ok()
        .filter(|count| *count <= MAX_ENTRIES)
        .ok_or(NotAValue::Entries(announced))?;
    let found = (0..count)
        .map(|_| read(&mut reader))
        .collect::<Result<_, _>>()?;
    if reader.0.is_empty() {
        Ok(found)
    } else {
        Err(NotAValue::Rest(reader.0.len()))
    }
}

fn write<T>(entries: &[T], put: impl Fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    if entries.is_empty() {
        Vec::new()
    } else {
        counted(entries, put)
    }
}

fn counted<T>(entries: &[T], put: impl Fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = u32::try_from(entries.len())
        .unwrap_or(u32::MAX)
        .to_le_bytes()
        .to_vec();
    for entry in entries {
        put(entry, &mut bytes);
    }
    bytes
}

fn put(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    to.extend_from_slice(bytes);
}
