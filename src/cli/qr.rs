//! A text as a QR code of characters: two rows of modules are one line.

use qrcodegen::{QrCode, QrCodeEcc};

use super::failure::CommandError;

/// Modules that stay light on every side (ISO/IEC 18004 section 5.3.8).
const QUIET: i32 = 4;

/// The lines of the code. Light modules are drawn, because the background of most terminals is
/// dark.
///
/// # Errors
/// The text is too long for a QR code.
pub(super) fn lines(text: &str) -> Result<Vec<String>, CommandError> {
    let code = QrCode::encode_text(text, QrCodeEcc::Low)
        .map_err(|_| CommandError::of("the token is too long for a QR code"))?;
    let end = code.size() + QUIET;
    let is_light = |x: i32, y: i32| y < end && !code.get_module(x, y);
    let character = |x: i32, y: i32| match (is_light(x, y), is_light(x, y + 1)) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    };
    let rows = (-QUIET..end).step_by(2);
    Ok(rows
        .map(|y| (-QUIET..end).map(|x| character(x, y)).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_every_module() {
        let text = "a token of some length, with letters, digits 0123456789 and signs.";
        let code = QrCode::encode_text(text, QrCodeEcc::Low).unwrap();
        let lines = lines(text).unwrap();
        let width = usize::try_from(code.size() + 2 * QUIET).unwrap();
        assert_eq!(lines.len(), width.div_ceil(2));
        for (row, line) in lines.iter().enumerate() {
            let letters: Vec<char> = line.chars().collect();
            assert_eq!(letters.len(), width);
            for (column, letter) in letters.into_iter().enumerate() {
                let at = |lower: usize| {
                    let of = |place: usize| i32::try_from(place).unwrap() - QUIET;
                    code.get_module(of(column), of(2 * row + lower))
                };
                let is_last = 2 * row + 1 == width;
                assert_eq!(at(0), " ▄".contains(letter), "{column} {row}");
                assert!(is_last || at(1) == " ▀".contains(letter), "{column} {row}");
            }
        }
        assert!(super::lines(&"x".repeat(3000)).is_err());
    }
}
