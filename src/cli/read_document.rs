//! A network document as it was read, so that an error about it names the object and its line.

use std::{collections::HashMap, fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value as Json;
use serde_saphyr::Spanned;

use super::failure::CommandError;

/// A document: its text in YAML, and what it says.
pub(super) struct ReadDocument {
    pub text: String,
    pub network: Json,
}

/// What an error is about.
struct Place<'d> {
    /// The bytes of the error that name the object, after the kind.
    span: Range<usize>,
    kind: &'d str,
    /// The position of the object in its list.
    at: usize,
    /// The name of the object; blank if it has none.
    name: &'d str,
    member: String,
}

impl ReadDocument {
    /// The failure with the name of the object that it is about, in place of its number in a list,
    /// and with its line.
    pub(super) fn located(&self, failure: CommandError) -> CommandError {
        let CommandError::Start(line) = failure else {
            return failure;
        };
        let Some(place) = self.place(&line) else {
            return CommandError::Start(line);
        };
        let mut told = line.clone();
        if !place.name.is_empty() {
            told.replace_range(place.span.clone(), place.name);
        }
        let number = self
            .line(&place)
            .map(|number| format!(" (line {number})"))
            .unwrap_or_default();
        CommandError::of(told + &number)
    }

    /// The first object that an error names: `identities.0.type` or `identities.alice.type`.
    fn place(&self, error: &str) -> Option<Place<'_>> {
        let lists = self
            .network
            .as_object()?
            .iter()
            .filter_map(|(kind, list)| Some((kind.as_str(), list.as_array()?)));
        let found = lists.filter_map(|(kind, objects)| {
            let words = error.match_indices(kind).filter(|(at, _)| {
                !error
                    .get(..*at)
                    .is_some_and(|before| before.ends_with(is_of_a_word))
            });
            words
                .filter_map(|(at, _)| place(error, at + kind.len(), kind, objects))
                .next()
        });
        found.min_by_key(|place| place.span.start)
    }

    /// The line of the member, or else of the object.
    fn line(&self, place: &Place<'_>) -> Option<u64> {
        let mut lists: HashMap<String, Vec<Spanned<Members>>> =
            serde_saphyr::from_str(&self.text).ok()?;
        let object = lists.remove(place.kind)?.into_iter().nth(place.at)?;
        let member = object
            .value
            .0
            .get(&place.member)
            .map(|member| member.referenced.line());
        Some(member.unwrap_or_else(|| object.referenced.line()))
    }
}

/// The places of the members of an object; none of anything else, such as an assertion.
struct Members(HashMap<String, Spanned<IgnoredAny>>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object or a text")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Members, A::Error> {
        let mut members = HashMap::new();
        while let Some((name, value)) = from.next_entry()? {
            members.insert(name, value);
        }
        Ok(Members(members))
    }

    fn visit_str<E>(self, _: &str) -> Result<Members, E> {
        Ok(Members(HashMap::new()))
    }
}

fn is_of_a_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '-' || letter == '_'
}

/// The object that is named in an error from `begin` on, after its kind.
fn place<'d>(error: &str, begin: usize, kind: &'d str, objects: &'d [Json]) -> Option<Place<'d>> {
    let rest = error.get(begin..)?.strip_prefix('.')?;
    let ends = |length: usize| {
        rest.get(length..)
            .is_some_and(|after| !after.starts_with(is_of_a_word))
    };
    let name_of = |object: &'d Json| {
        object
            .get("name")
            .and_then(Json::as_str)
            .unwrap_or_default()
    };
    let names = objects
        .iter()
        .enumerate()
        .map(|(at, object)| (at, name_of(object)));
    let by_name = names
        .filter(|(_, name)| !name.is_empty() && rest.starts_with(name) && ends(name.len()))
        .max_by_key(|(_, name)| name.len());
    let digits = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    let by_number = || {
        let at: usize = rest.get(..digits)?.parse().ok()?;
        let object = objects.get(at).filter(|_| ends(digits))?;
        Some((at, name_of(object)))
    };
    let (length, (at, name)) = match by_name {
        Some((at, name)) => (name.len(), (at, name)),
        None => (digits, by_number()?),
    };
    let member = rest.get(length..)?.strip_prefix('.').unwrap_or_default();
    let member = member
        .chars()
        .take_while(|letter| letter.is_alphanumeric())
        .collect();
    Some(Place {
        span: begin + 1..begin + 1 + length,
        kind,
        at,
        name,
        member,
    })
}
