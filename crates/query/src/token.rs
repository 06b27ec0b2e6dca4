//! The lexer: text to tokens, one at a time.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{FilterFault, Value, check::Relation};

/// The blanks of the language; other Unicode spaces are unknown characters.
pub(crate) const BLANKS: [char; 4] = [' ', '\n', '\t', '\r'];

#[derive(Clone, Debug)]
pub(crate) struct Token<'t> {
    pub lexeme: Lexeme<'t>,
    /// The number of blanks before it; some rules of the grammar require them.
    pub blanks: usize,
    pub start: usize,
    pub source: &'t str,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lexeme<'t> {
    Name(&'t str),
    Word(Word),
    Literal(Value<'static>),
    Relation(Relation),
    /// One of `()[],`
    Mark(char),
    End,
}

/// The reserved words, case-insensitive; `true`, `false` and `null` are literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    And,
    Or,
    Not,
    In,
    Between,
    Contains,
    IContains,
    AllOf,
    AnyOf,
    Count,
    IsEmpty,
    From,
    Where,
    Sort,
    By,
    Asc,
    Desc,
    Skip,
    Limit,
    None,
}

const FILTER_NAMES: [(&str, Lexeme<'static>); 23] = [
    ("and", Lexeme::Word(Word::And)),
    ("or", Lexeme::Word(Word::Or)),
    ("not", Lexeme::Word(Word::Not)),
    ("in", Lexeme::Word(Word::In)),
    ("between", Lexeme::Word(Word::Between)),
    ("contains", Lexeme::Word(Word::Contains)),
    ("icontains", Lexeme::Word(Word::IContains)),
    ("allOf", Lexeme::Word(Word::AllOf)),
    ("anyOf", Lexeme::Word(Word::AnyOf)),
    ("count", Lexeme::Word(Word::Count)),
    ("isEmpty", Lexeme::Word(Word::IsEmpty)),
    ("from", Lexeme::Word(Word::From)),
    ("where", Lexeme::Word(Word::Where)),
    ("sort", Lexeme::Word(Word::Sort)),
    ("by", Lexeme::Word(Word::By)),
    ("asc", Lexeme::Word(Word::Asc)),
    ("desc", Lexeme::Word(Word::Desc)),
    ("skip", Lexeme::Word(Word::Skip)),
    ("limit", Lexeme::Word(Word::Limit)),
    ("none", Lexeme::Word(Word::None)),
    ("true", Lexeme::Literal(Value::Bool(true))),
    ("false", Lexeme::Literal(Value::Bool(false))),
    ("null", Lexeme::Literal(Value::Null)),
];

const RELATIONS: [(&str, Relation); 6] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("!=", Relation::NotEqual),
    ("<", Relation::Less),
    (">", Relation::Greater),
    ("=", Relation::Equal),
];

pub(crate) struct Lexer<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, position: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<Token<'t>, FilterFault> {
        let blanks = run(self.rest(), |c| BLANKS.contains(&c));
        self.position += blanks;
        let start = self.position;
        let lexeme = self.lexeme()?;
        Ok(Token {
            lexeme,
            blanks,
            start,
            source: self.text.get(start..self.position).unwrap_or_default(),
        })
    }

    fn lexeme(&mut self) -> Result<Lexeme<'t>, FilterFault> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Lexeme::End);
        };
        if let Some((sign, relation)) = RELATIONS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            self.position += sign.len();
            return Ok(Lexeme::Relation(*relation));
        }
        match first {
            '(' | ')' | '[' | ']' | ',' => {
                self.position += 1;
                Ok(Lexeme::Mark(first))
            }
            '"' => self.text(),
            '-' | '0'..='9' => self.number(),
            'a'..='z' | 'A'..='Z' => self.name(),
            // An unknown character is an error: skipping it would make `na#me` mean `name` and hide
            // typing mistakes.
            _ => Err(self
                .fault("unknown character")
                .naming(first.encode_utf8(&mut [0; 4]))),
        }
    }

    fn name(&mut self) -> Result<Lexeme<'t>, FilterFault> {
        let name = self.take(name_length(self.rest()));
        if name == "datetime" && self.rest().starts_with('(') {
            return self.date();
        }
        let word = FILTER_NAMES
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(name));
        Ok(word.map_or(Lexeme::Name(name), |(_, lexeme)| lexeme.clone()))
    }

    /// Starts at the parenthesis after `datetime`. Digits below a millisecond are dropped: dates
    /// are stored in milliseconds.
    fn date(&mut self) -> Result<Lexeme<'t>, FilterFault> {
        self.position += 1;
        let text = self
            .take(self.rest().find(')').unwrap_or(0))
            .trim_matches(BLANKS);
        // `OffsetDateTime::parse` accepts any character between date and time; only `T` is allowed
        // here.
        let parsed = if matches!(text.as_bytes().get(10), Some(b'T' | b't')) {
            OffsetDateTime::parse(text, &Rfc3339).ok()
        } else {
            None
        };
        let milliseconds = parsed
            .and_then(|time| i64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok());
        let Some(milliseconds) = milliseconds else {
            return Err(self
                .fault("expected an RFC 3339 date and time")
                .naming(text));
        };
        self.position += 1;
        Ok(Lexeme::Literal(Value::Date(milliseconds)))
    }

    fn number(&mut self) -> Result<Lexeme<'t>, FilterFault> {
        let source = self
            .rest()
            .get(..number_length(self.rest()))
            .unwrap_or_default();
        let value = match (source.parse(), source.parse::<f64>()) {
            (Ok(integer), _) => Value::Integer(integer),
            (_, Ok(float)) if float.is_finite() => Value::Float(float),
            _ => {
                return Err(self
                    .fault("expected a number")
                    .naming(if source.is_empty() { "-" } else { source }));
            }
        };
        self.position += source.len();
        Ok(Lexeme::Literal(value))
    }

    fn text(&mut self) -> Result<Lexeme<'t>, FilterFault> {
        let start = self.position;
        self.position += 1;
        // The text before `from`, without escapes.
        let (mut text, mut from) = (String::new(), self.position);
        while let Some(c) = self.rest().chars().next() {
            match c {
                '"' => {
                    text += &unescape(self.text.get(from..self.position).unwrap_or_default());
                    self.position += 1;
                    return Ok(Lexeme::Literal(Value::Text(text.into())));
                }
                '\\' => {
                    let part = self.text.get(from..self.position).unwrap_or_default();
                    self.position += 1;
                    match self.rest().chars().next() {
                        Some('"' | '\\' | 'f' | 'n' | 'r' | 't') => self.position += 1,
                        Some('x') => {
                            text += &unescape(part);
                            text.push(self.code_point()?);
                            from = self.position;
                        }
                        Some(other) => return Err(self.fault("unknown escape").naming(other.encode_utf8(&mut [0; 4]))),
                        None => break,
                    }
                }
                '\0'..='\x1f' => return Err(self.fault("control character in a text: write it as an escape (\\n, \\t, \\r, \\f, \\x{1b})")),
                _ => self.position += c.len_utf8(),
            }
        }
        self.position = start;
        Err(self.fault("the text has no closing quote"))
    }

    /// The character of an escape such as `\x{202e}`, by its number in one to six hexadecimal
    /// digits. Starts at the `x`.
    fn code_point(&mut self) -> Result<char, FilterFault> {
        let digits = self
            .rest()
            .strip_prefix("x{")
            .and_then(|rest| rest.get(..run(rest, |c| c.is_ascii_hexdigit())));
        let digits = digits.filter(|digits| {
            (1..=6).contains(&digits.len())
                && self
                    .rest()
                    .get(2 + digits.len()..)
                    .is_some_and(|end| end.starts_with('}'))
        });
        let letter = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32);
        match (digits, letter) {
            (Some(digits), Some(letter)) => {
                self.position += "x{}".len() + digits.len();
                Ok(letter)
            }
            _ => Err(self
                .fault("expected the number of a character, such as \\x{1b}")
                .naming("x")),
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn take(&mut self, length: usize) -> &'t str {
        let taken = self.rest().get(..length).unwrap_or_default();
        self.position += taken.len();
        taken
    }

    fn fault(&self, message: &str) -> FilterFault {
        FilterFault::at(self.text, self.position, message)
    }
}

/// Replaces escapes in the order in which OpenZiti does, so that saved filters keep their meaning.
/// In consequence `\\n` is a newline, not a backslash and an n.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let replacements = [
        (r"\\", r"\"),
        (r#"\""#, "\""),
        (r"\f", "\x0c"),
        (r"\n", "\n"),
        (r"\r", "\r"),
        (r"\t", "\t"),
        (r"\\", r"\"),
    ];
    replacements
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A text as a literal. A backslash is written by its number, because the recorded order of escapes
/// reads `\\n` as a newline.
pub fn literal(text: &str) -> String {
    let mut written = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => written += "\\\"",
            '\\' | '\0'..='\x1f' => written += &format!("\\x{{{:x}}}", u32::from(letter)),
            _ => written.push(letter),
        }
    }
    written.push('"');
    written
}

/// Length of a name: letters and `_`, then dotted parts that may also hold `-`. Each part begins
/// with a letter.
fn name_length(text: &str) -> usize {
    let mut length = run(text, |c| c.is_ascii_alphabetic() || c == '_');
    while let Some(part) = text.get(length..).and_then(|rest| rest.strip_prefix('.')) {
        if !part.starts_with(|c: char| c.is_ascii_alphabetic()) {
            break;
        }
        length += 1 + run(part, |c| c.is_ascii_alphabetic() || c == '_' || c == '-');
    }
    length
}

/// Length of a number, as in JSON. `01` is two numbers, which no rule accepts.
fn number_length(text: &str) -> usize {
    let at = |position: usize| text.get(position..).unwrap_or_default();
    let digits = |position: usize| run(at(position), |c| c.is_ascii_digit());
    let sign = usize::from(text.starts_with('-'));
    let whole = if at(sign).starts_with('0') {
        1
    } else {
        digits(sign)
    };
    if whole == 0 {
        return 0;
    }
    let mut length = sign + whole;
    if at(length).starts_with('.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
    }
    if at(length).starts_with(['e', 'E']) {
        let sign = usize::from(at(length + 1).starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        length += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    length
}

/// The length in bytes of the leading characters that satisfy `of`.
fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}
