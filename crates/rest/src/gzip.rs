//! Gzip compression (RFC 1952) of answers, for clients that accept it.
//!
//! A body is compressed as a whole before it is sent, or in pieces while it is produced. The
//! deflate blocks (RFC 1951) of a piece end at a byte boundary and do not refer to earlier pieces.
//! Therefore no compressor state is kept for an answer between two pieces, and one compressor per
//! thread serves all answers of the thread. Constant texts are compressed once.

use std::{
    cell::RefCell,
    sync::{Arc, OnceLock},
};

use actix_web::web::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use futures_util::{Stream, StreamExt, stream};
use model::error::{Error, Result};

/// The name in `content-encoding`.
pub(crate) const GZIP: &str = "gzip";
/// Smaller bodies are not compressed: they would hardly shrink.
const SMALLEST: usize = 256;
/// Larger bodies are not compressed as a whole: that would block the thread for too long.
const MAX_LENGTH: usize = 2 << 20;
/// The gzip header: no name, no time, unknown system, fast compression.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// An empty last block.
const END: [u8; 2] = [3, 0];

thread_local! {
    static PACKER: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), false));
}

/// Whether an `accept-encoding` header (RFC 9110, section 12.5.3) accepts gzip.
pub(crate) fn is_taken(accepted: &str) -> bool {
    let weight = |coding: &str| {
        accepted.split(',').find_map(|part| {
            let mut words = part.split(';').map(str::trim);
            let named = words
                .next()
                .filter(|named| named.eq_ignore_ascii_case(coding))?;
            let quality = words
                .find_map(|word| word.strip_prefix("q="))
                .map(|quality| quality.trim().parse::<f32>().unwrap_or(0.0));
            Some((named, quality.unwrap_or(1.0))).map(|(_, quality)| quality > 0.0)
        })
    };
    weight(GZIP)
        .or_else(|| weight("x-gzip"))
        .or_else(|| weight("*"))
        .unwrap_or(false)
}

/// A compressed body; `None` if it would not be smaller.
pub(crate) fn whole(body: &[u8]) -> Option<Bytes> {
    if !(SMALLEST..=MAX_LENGTH).contains(&body.len()) {
        return None;
    }
    let mut pieces = GzipPieces::default();
    let mut packed = pieces.pack(body).ok()?;
    packed.extend_from_slice(&pieces.end());
    (packed.len() < body.len()).then(|| packed.into())
}

/// The state of a body that is compressed in pieces.
#[derive(Default)]
pub(crate) struct GzipPieces {
    sum: crc32fast::Hasher,
    has_begun: bool,
    /// Modulo 2^32.
    length: u32,
}

impl GzipPieces {
    /// Compresses the next piece.
    ///
    /// # Errors
    /// The compressor fails, which is a defect.
    pub(crate) fn pack(&mut self, piece: &[u8]) -> Result<Vec<u8>> {
        self.sum.update(piece);
        self.length = self.length.wrapping_add(piece.len() as u32);
        let mut packed = Vec::with_capacity(HEAD.len() + piece.len() / 4 + 64);
        if !std::mem::replace(&mut self.has_begun, true) {
            packed.extend_from_slice(&HEAD);
        }
        PACKER.with_borrow_mut(|packer| packed_with(packer, piece, &mut packed))?;
        Ok(packed)
    }

    /// The bytes after the last piece.
    pub(crate) fn end(self) -> Vec<u8> {
        let head = if self.has_begun { &[][..] } else { &HEAD };
        [
            head,
            &END,
            &self.sum.finalize().to_le_bytes(),
            &self.length.to_le_bytes(),
        ]
        .concat()
    }
}

/// Compresses the pieces of a body one after the other.
pub(crate) fn stream(
    pieces: impl Stream<Item = Result<Vec<u8>>> + Unpin,
) -> impl Stream<Item = Result<Bytes>> {
    stream::unfold(
        (pieces, Some(GzipPieces::default())),
        async |(mut pieces, packer)| {
            let mut packer = packer?;
            match pieces.next().await {
                Some(Ok(piece)) => {
                    let packed = packer.pack(&piece).map(Bytes::from);
                    Some((packed, (pieces, Some(packer))))
                }
                Some(Err(error)) => Some((Err(error), (pieces, None))),
                None => Some((Ok(packer.end().into()), (pieces, None))),
            }
        },
    )
}

fn packed_with(packer: &mut Compress, piece: &[u8], packed: &mut Vec<u8>) -> Result<()> {
    packer.reset();
    let mut rest = piece;
    loop {
        packed.reserve(rest.len() / 4 + 64);
        let before = packer.total_in();
        let status = packer.compress_vec(rest, packed, FlushCompress::Full);
        let taken = usize::try_from(packer.total_in() - before).unwrap_or_default();
        rest = rest.get(taken..).unwrap_or_default();
        match status {
            Err(error) => {
                return Err(Error::Internal(format!(
                    "cannot compress an answer: {error}"
                )));
            }
            // Free space in the buffer means that all output was written.
            Ok(_) if rest.is_empty() && packed.len() < packed.capacity() => return Ok(()),
            Ok(Status::Ok | Status::BufError | Status::StreamEnd) => {}
        }
    }
}

/// A text that is the same for every caller, compressed once. Cheap to clone.
#[derive(Clone)]
pub struct Constant(Arc<Text>);

struct Text {
    plain: Bytes,
    packed: OnceLock<Option<Bytes>>,
}

impl Constant {
    /// Wraps a text.
    pub fn new(plain: Bytes) -> Self {
        Self(Arc::new(Text {
            plain,
            packed: OnceLock::new(),
        }))
    }

    /// The uncompressed text.
    pub fn plain(&self) -> Bytes {
        self.0.plain.clone()
    }

    /// The compressed text; `None` if it would not be smaller.
    pub fn packed(&self) -> Option<Bytes> {
        self.0.packed.get_or_init(|| whole(&self.0.plain)).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::bufread::GzDecoder;

    use super::*;

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let (mut decoder, mut text) = (GzDecoder::new(packed), Vec::new());
        decoder.read_to_end(&mut text).unwrap();
        assert!(
            decoder.into_inner().is_empty(),
            "expected one gzip member and nothing after it"
        );
        text
    }

    #[test]
    fn pieces_form_one_gzip_stream() {
        let noise: Vec<u8> = (0..200_000_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for pieces in [
            vec![],
            vec![&b""[..]],
            vec![b"one", b"", b"two"],
            vec![&noise, b"a", &noise[..70_000]],
        ] {
            let mut packer = GzipPieces::default();
            let mut packed: Vec<u8> = pieces
                .iter()
                .flat_map(|piece| packer.pack(piece).unwrap())
                .collect();
            packed.extend(packer.end());
            assert_eq!(unpacked(&packed), pieces.concat());
        }
    }

    #[test]
    fn only_smaller_bodies_are_gzipped() {
        let text = b"{\"name\":\"web\"},".repeat(500);
        let packed = whole(&text).unwrap();
        assert!(packed.len() < text.len() / 10);
        assert_eq!(unpacked(&packed), text);
        assert!(whole(&text[..SMALLEST - 1]).is_none());
        let constant = Constant::new(text.clone().into());
        assert_eq!(
            (
                constant.plain().to_vec(),
                unpacked(&constant.packed().unwrap())
            ),
            (text.clone(), text)
        );
    }

    #[test]
    fn who_takes_gzip_says_so() {
        for taken in [
            "gzip",
            "deflate, gzip;q=0.5",
            "*",
            "GZIP",
            "x-gzip",
            "br;q=1.0,*;q=0.1",
        ] {
            assert!(is_taken(taken), "{taken}");
        }
        for not in [
            "",
            "identity",
            "br",
            "gzip;q=0",
            "gzip; q=0.0, *",
            "*;q=0",
            "gzip;q=x",
        ] {
            assert!(!is_taken(not), "{not}");
        }
    }
}
