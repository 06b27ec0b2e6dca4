//! Characters that a terminal obeys or that nobody sees: control characters, those that change the
//! direction of text, and those without width. Text of others is printed with escapes in their
//! place, so that it can neither forge lines nor look like another text.
//!
//! Every place that prints text of others uses these functions. What accepts or rejects such text
//! is decided by its reader.

use crate::error::{Error, Result};

/// Why such a text is rejected.
pub const REASON: &str = "must not contain control characters, characters that change the direction of text, or characters without width";

/// Whether a text shows something else than it holds.
pub(crate) fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            // The direction of text.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // No width, or blank although it counts as a letter.
            | '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            // Separators of lines and paragraphs, and annotations.
            | '\u{2028}' | '\u{2029}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether a text has such a character.
pub fn is_in(text: &str) -> bool {
    text.chars().any(is_hidden)
}

/// Rejects a text that a peer chose for a member.
///
/// # Errors
/// It has such characters. The error names the member.
pub fn check(member: &str, text: &str) -> Result<()> {
    if is_in(text) {
        Err(Error::invalid(member, REASON, shown(text)))
    } else {
        Ok(())
    }
}

/// The text as one line, with escapes such as `\n` and `\u{1b}` in place of such characters.
pub fn shown(text: &str) -> String {
    escaped(
        text,
        |_| false,
        |out, letter| out.extend(letter.escape_default()),
    )
}

/// The same for a text of several lines.
pub fn shown_lines(text: &str) -> String {
    escaped(
        text,
        |letter| letter == '\n',
        |out, letter| out.extend(letter.escape_default()),
    )
}

/// JSON text with escapes of JSON in place of such characters, so that it means the same. The line
/// breaks between values stay.
pub fn json(text: &str) -> String {
    let unit = |out: &mut String, letter: char| {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    };
    escaped(text, |letter| letter == '\n', unit)
}

/// The mark of [`marked`]. A YAML writer puts a text with it into double quotes and writes it as
/// [`WRITTEN`].
const MARK: char = '\u{feff}';
const WRITTEN: &str = "\\uFEFF";

/// A text for a YAML writer that escapes control characters only: other such characters are marked,
/// for [`unmarked`].
pub fn marked(text: &str) -> String {
    let mark = |out: &mut String, letter: char| {
        out.push_str(&format!("{MARK}{:08x}{MARK}", u32::from(letter)))
    };
    if !text.contains(WRITTEN) {
        return escaped(text, char::is_control, mark);
    }
    // The text must not look like one that was marked.
    text.split('\\')
        .map(|part| escaped(part, char::is_control, mark))
        .collect::<Vec<_>>()
        .join(&format!("{MARK}{:08x}{MARK}", u32::from('\\')))
}

/// The YAML text that a writer made of marked texts, with escapes of YAML in place of the marks.
pub fn unmarked(yaml: &str) -> String {
    let mut parts = yaml.split(WRITTEN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        text.push_str(&format!("\\U{code}{}", parts.next().unwrap_or_default()));
    }
    text
}

fn escaped(text: &str, stays: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if stays(letter) || !is_hidden(letter) => shown.push(letter),
            letter => escape(&mut shown, letter),
        }
    }
    shown
}

/// A text of others as one word of a command that a person may paste into a shell of POSIX, or
/// into fish, which reads backslashes in quotes: in single quotes if it holds anything but
/// characters without a meaning.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "@%+:,./_-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut text = String::from("'");
    for letter in word.chars() {
        if matches!(letter, '\'' | '\\') {
            text.push_str("'\\");
            text.push(letter);
            text.push('\'');
        } else {
            text.push(letter);
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: [char; 20] = [
        '\0',
        '\t',
        '\n',
        '\r',
        '\u{1b}',
        '\u{7f}',
        '\u{80}',
        '\u{9b}',
        '\u{9f}',
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200e}',
        '\u{202e}',
        '\u{2028}',
        '\u{2066}',
        '\u{2069}',
        '\u{2060}',
        '\u{feff}',
        '\u{e0041}',
    ];

    #[test]
    fn words_are_quoted_for_every_shell() {
        for (word, expected) in [
            ("web-1.internal:80", "web-1.internal:80"),
            ("", "''"),
            ("=ls", "'=ls'"),
            ("o'brien", r"'o'\''brien'"),
            (r"\'; evil #", r"''\\''\''; evil #'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn hidden_characters_are_escaped() {
        for letter in HIDDEN {
            let text = format!("a{letter}b");
            assert!(is_in(&text) && !is_in(&shown(&text)), "{letter:?}");
            assert_eq!(shown_lines(&text).contains('\n'), letter == '\n');
            let quoted = json(&serde_json::to_string(&text).unwrap());
            assert!(!is_in(&quoted), "{quoted}");
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
            let yaml = unmarked(&serde_saphyr::to_string(&marked(&text)).unwrap());
            assert!(yaml.lines().all(|line| !is_in(line)), "{yaml:?}");
            assert_eq!(
                serde_saphyr::from_str::<String>(&yaml).unwrap(),
                text,
                "{yaml:?}"
            );
        }
        for plain in [
            "web",
            "bücher",
            "数据库",
            "a b",
            "emoji 🙂",
            "C:\\dir",
            "שלום",
            "%20\\u{41}",
        ] {
            assert!(
                !is_in(plain) && shown(plain) == plain && marked(plain) == plain,
                "{plain}"
            );
        }
        assert_eq!(shown("a\n\u{202e}b"), "a\\n\\u{202e}b");
        for tricky in [
            "\\uFEFF0000200b\\uFEFF",
            "\u{200b}\\uFEFF",
            "\\\\uFEFF\u{feff}\\",
            "\\U0000200b",
        ] {
            let yaml = unmarked(&serde_saphyr::to_string(&marked(tricky)).unwrap());
            assert_eq!(
                serde_saphyr::from_str::<String>(&yaml).unwrap(),
                tricky,
                "{yaml:?}"
            );
        }
    }
}
