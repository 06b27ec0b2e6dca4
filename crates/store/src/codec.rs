//! The format of a record on disk: `[version u8][checksum u32, little endian][bincode]`. Only this
//! file uses bincode.
//!
//! The bincode part is header (times, system flag, tags), spec, state, in this order. The checksum
//! also covers the id, so that the bytes of one record under the key of another are detected as
//! damage.

use bincode::{
    config::{self, Config},
    error::DecodeError,
    serde::{decode_from_slice, encode_into_std_write},
};
use serde::{Serialize, de::DeserializeOwned};

use model::{
    clock::Timestamp,
    entity::{Entity, Id, Record, SpecEncoding, Stored, Tags},
    error::{Error, Result},
};

/// The largest size of a record, in bytes.
const LIMIT: usize = 16 << 20;
/// The decoding limit, which bounds what a damaged length can allocate. When bincode reads, it
/// counts 8 bytes for each length, although it may have written a single one.
const READ_LIMIT: usize = 9 * LIMIT;

fn format() -> impl Config {
    config::standard().with_limit::<READ_LIMIT>()
}

/// Encodes a record.
///
/// # Errors
/// [`Error::Invalid`] if it is larger than 16 MiB; [`Error::Internal`] if its types cannot be
/// encoded.
pub fn encode<E: Entity>(record: &Record<E>) -> Result<Vec<u8>> {
    let mut bytes = vec![E::VERSION, 0, 0, 0, 0];
    append(
        &mut bytes,
        &(
            record.created_at,
            record.updated_at,
            record.is_system,
            &record.tags,
        ),
    )?;
    match E::ENCODING {
        SpecEncoding::Binary => append(&mut bytes, &record.spec)?,
        SpecEncoding::Text => {
            let text = serde_json::to_string(&record.spec)
                .map_err(|e| Error::Internal(format!("a {}: {e}", E::KIND.name)))?;
            append(&mut bytes, &text)?;
        }
    }
    append(&mut bytes, &record.state)?;
    if bytes.len() > LIMIT {
        return Err(Error::invalid(
            "(root)",
            format!("is larger than {LIMIT} bytes"),
            "",
        ));
    }
    let sum = checksum(record.id.as_str(), &bytes).to_le_bytes();
    if let Some(place) = bytes.get_mut(1..5) {
        place.copy_from_slice(&sum);
    }
    Ok(bytes)
}

fn append(bytes: &mut Vec<u8>, part: &impl Serialize) -> Result<()> {
    encode_into_std_write(part, bytes, format())
        .map(|_| ())
        .map_err(|e| Error::Internal(format!("encoding: {e}")))
}

/// Decodes a record. Any input gives a record or an error.
///
/// # Errors
/// [`Error::Damaged`] with the kind, the id and the reason.
pub fn decode<E: Entity>(id: &str, bytes: &[u8]) -> Result<Record<E>> {
    read(id, bytes).map_err(|damage| Error::Damaged {
        kind: E::KIND.name,
        id: id.into(),
        reason: damage.to_string(),
    })
}

/// Why bytes are not a record.
#[derive(Debug, thiserror::Error)]
enum Damage {
    #[error("it is too short")]
    TooShort,
    #[error("the checksum is wrong")]
    Checksum,
    #[error("{0}")]
    Part(DecodeError),
    /// A spec that is stored as text.
    #[error("{0}")]
    Text(serde_json::Error),
    /// The parts of a kind, of this version or of an earlier one.
    #[error("{0}")]
    Parts(Error),
    #[error("{0} bytes too many")]
    TooLong(usize),
}

fn read<E: Entity>(id: &str, bytes: &[u8]) -> Result<Record<E>, Damage> {
    let Some(([version, sum @ ..], payload)) = bytes.split_first_chunk::<5>() else {
        return Err(Damage::TooShort);
    };
    if checksum(id, bytes) != u32::from_le_bytes(*sum) {
        return Err(Damage::Checksum);
    }
    let mut rest = Rest(payload);
    let (created_at, updated_at, is_system, tags): (Timestamp, Timestamp, bool, Tags) =
        rest.next()?;
    let parts = if *version == E::VERSION {
        Stored::read(&mut rest, E::ENCODING)
    } else {
        E::upgrade(*version, &mut rest)
    };
    let (spec, state) = parts.map_err(Damage::Parts)?;
    if !rest.0.is_empty() {
        return Err(Damage::TooLong(rest.0.len()));
    }
    Ok(Record {
        id: Id::from_text(id),
        created_at,
        updated_at,
        tags,
        is_system,
        spec,
        state,
    })
}

/// The bytes of a record that are not read yet.
struct Rest<'b>(&'b [u8]);

impl Rest<'_> {
    fn next<T: DeserializeOwned>(&mut self) -> Result<T, Damage> {
        let (value, read) = decode_from_slice(self.0, format()).map_err(Damage::Part)?;
        self.0 = self.0.get(read..).unwrap_or_default();
        Ok(value)
    }
}

impl Stored for Rest<'_> {
    fn read<S: DeserializeOwned, T: DeserializeOwned>(
        &mut self,
        spec: SpecEncoding,
    ) -> Result<(S, T)> {
        let mut parts = || -> Result<(S, T), Damage> {
            let spec = match spec {
                SpecEncoding::Binary => self.next()?,
                SpecEncoding::Text => {
                    serde_json::from_str(&self.next::<String>()?).map_err(Damage::Text)?
                }
            };
            Ok((spec, self.next()?))
        };
        parts().map_err(|damage| Error::Internal(damage.to_string()))
    }
}

/// CRC-32 of the id and of all bytes except the checksum itself.
fn checksum(id: &str, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(id.as_bytes());
    sum.update(bytes.get(..1).unwrap_or_default());
    sum.update(bytes.get(5..).unwrap_or_default());
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::entity::{
        Mfa,
        mfa::{CodePurpose, State},
    };

    #[test]
    fn version_1_used_codes_are_read() {
        let spec = Mfa {
            identity_id: Id::from_text("ann"),
            sealed: vec![1, 2, 3],
            is_verified: true,
        };
        let at = Timestamp::from_millis(1_700_000_000_123);
        let mut record = Record::new(Id::<Mfa>::from_text("factor"), at, spec);
        record.state = State::default();
        let mut bytes = encode(&record).unwrap();
        // Version 1 wrote each code after the spec with its time step and its session, without the
        // purpose.
        assert_eq!(bytes.pop(), Some(0), "no codes");
        append(&mut bytes, &vec![(7_u64, "one"), (8, "other")]).unwrap();
        bytes[0] = 1;
        let sum = checksum("factor", &bytes).to_le_bytes();
        bytes[1..5].copy_from_slice(&sum);
        let read = decode::<Mfa>("factor", &bytes).unwrap();
        let used: Vec<_> = read
            .state
            .used
            .iter()
            .map(|used| (used.step, used.session.as_str(), used.purpose))
            .collect();
        assert_eq!(
            used,
            [
                (7, "one", CodePurpose::Enter),
                (8, "other", CodePurpose::Enter)
            ]
        );
        assert!(
            read.spec.is_verified
                && read.spec.sealed == [1, 2, 3]
                && read.spec.identity_id.as_str() == "ann"
        );
        bytes[0] = 3;
        let sum = checksum("factor", &bytes).to_le_bytes();
        bytes[1..5].copy_from_slice(&sum);
        assert!(
            decode::<Mfa>("factor", &bytes).is_err(),
            "a version that is not known"
        );
    }
}
