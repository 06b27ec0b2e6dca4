//! QR codes as PNG pictures.

use model::error::{Error, Result};
use qrcodegen::{QrCode, QrCodeEcc};

use crate::{
    answer::{Answer, Reply},
    header::Header,
    openapi::operation::{AnswerShape, Operation, Schemas},
};

/// Width and height of a picture, in pixels.
const PIXELS: usize = 256;
/// Modules that stay white on every side (ISO/IEC 18004 section 5.3.8).
const QUIET: usize = 4;
const WHITE: u8 = 255;

/// A PNG image.
pub(crate) struct Picture(Vec<u8>);

impl Picture {
    /// The QR code of a text, 256 pixels wide and high, 8 bit grey.
    ///
    /// # Errors
    /// [`Error::Invalid`] with `field` for a text of more than about two thousand bytes.
    pub(crate) fn of(text: &str, field: &str) -> Result<Self> {
        let code = QrCode::encode_text(text, QrCodeEcc::Medium)
            .map_err(|_| Error::invalid(field, "is too long for a QR code", ""))?;
        let modules = usize::try_from(code.size()).unwrap_or_default();
        let scale = (PIXELS / (modules + 2 * QUIET)).max(1);
        let margin = (PIXELS - modules * scale) / 2;
        let mut pixels = vec![WHITE; PIXELS * PIXELS];
        for (at, pixel) in pixels.iter_mut().enumerate() {
            let module = |from_edge: usize| {
                from_edge
                    .checked_sub(margin)
                    .map(|inside| inside / scale)
                    .filter(|module| *module < modules)
            };
            if let (Some(x), Some(y)) = (module(at % PIXELS), module(at / PIXELS))
                && code.get_module(x as i32, y as i32)
            {
                *pixel = 0;
            }
        }
        png_of(&pixels).map(Self)
    }
}

fn png_of(pixels: &[u8]) -> Result<Vec<u8>> {
    let failed =
        |e: png::EncodingError| Error::Internal(format!("cannot write a QR code as PNG: {e}"));
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, PIXELS as u32, PIXELS as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

impl Answer for Picture {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answer = Some(AnswerShape {
            status: 200,
            content: vec![("image/png", None)],
            headers: &[Header::CacheControl],
        });
        operation.errors.insert(404);
    }
    fn reply(self) -> Result<Reply> {
        let headers = vec![(Header::CacheControl.name(), "no-store".into())];
        Ok(Reply {
            status: 200,
            media: "image/png",
            body: self.0.into(),
            headers,
        })
    }
}
