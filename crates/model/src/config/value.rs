//! Value types of keys beyond those of serde: a duration, and an address that clients connect to.
//!
//! Not here: bounds (`validation.rs`). Start with `Span` and `Address`. Invariant: a written value
//! is parsed to the same value.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// A duration, written as a whole number and a unit: `500ms`, `90s`, `30m`, `12h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

/// Smallest first; in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl Span {
    pub const fn seconds(seconds: u64) -> Span {
        Span(Duration::from_secs(seconds))
    }

    pub const fn minutes(minutes: u64) -> Span {
        Span(Duration::from_secs(minutes.saturating_mul(60)))
    }

    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Span, InvalidText> {
        let (number, unit) = text.split_at(
            text.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len()),
        );
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
        let millis = number
            .parse::<u64>()
            .ok()
            .zip(unit)
            .and_then(|(number, (_, millis))| number.checked_mul(*millis));
        let refusal = || {
            InvalidText(format!(
                "{text:?} is not a duration: a whole number and ms, s, m, h or d, such as \"90s\""
            ))
        };
        millis
            .map(|millis| Span(Duration::from_millis(millis)))
            .ok_or_else(refusal)
    }
}

/// Written in the largest unit that needs no fraction.
impl Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (name, unit) = UNITS
            .into_iter()
            .rev()
            .find(|(_, unit)| millis >= *unit && millis % unit == 0)
            .unwrap_or(("ms", 1));
        write!(out, "{}{name}", millis / unit)
    }
}

/// A host and a port that clients connect to. The host is a DNS name or an IP address, in lower
/// case, without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only the host itself can reach it.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.ends_with(".localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The same host with another port.
    pub fn at(self, port: u16) -> Address {
        Address { port, ..self }
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Address {
        Address {
            host: at.ip().to_string(),
            port: at.port(),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Address, InvalidText> {
        let refusal = || {
            InvalidText(format!(
                "{text:?} is not HOST:PORT, such as overlay.example.org:1280 or [2001:db8::1]:1280"
            ))
        };
        if let Ok(at) = text.parse::<SocketAddr>() {
            let usable = at.port() != 0 && !at.ip().is_unspecified();
            return if usable {
                Ok(at.into())
            } else {
                Err(InvalidText(format!(
                    "{text:?} is not an address that clients can connect to"
                )))
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(refusal)?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0 && is_dns_name(host))
            .ok_or_else(refusal)?;
        Ok(Address {
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

impl Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// RFC 1123, section 2.1. A last label of digits only is a mistyped IP address.
fn is_dns_name(host: &str) -> bool {
    let label = |label: &str| {
        let inner = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        (1..=63).contains(&label.len()) && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 253 && host.split('.').all(label) && !last.chars().all(|c| c.is_ascii_digit())
}

// Text forms for serde.

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        from.deserialize_any(Text(
            "a duration with its unit, such as \"90s\"",
            PhantomData,
        ))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        from.deserialize_any(Text("HOST:PORT in quotes", PhantomData))
    }
}

/// Parses a `SocketAddr` like serde, with an error that shows the syntax.
pub(super) fn socket<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    struct Listen(SocketAddr);
    impl FromStr for Listen {
        type Err = InvalidText;

        fn from_str(text: &str) -> Result<Listen, InvalidText> {
            text.parse()
                .map(Listen)
                .map_err(|_| InvalidText::no_socket(text))
        }
    }
    from.deserialize_any(Text::<Listen>("ADDRESS:PORT in quotes", PhantomData))
        .map(|listen| listen.0)
}

/// Like [`socket`], for an optional key.
pub(super) fn optional_socket<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    struct Optional;
    impl<'de> Visitor<'de> for Optional {
        type Value = Option<SocketAddr>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("ADDRESS:PORT in quotes")
        }

        fn visit_none<E: de::Error>(self) -> Result<Option<SocketAddr>, E> {
            Ok(None)
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<SocketAddr>, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<SocketAddr>, D::Error> {
            socket(from).map(Some)
        }
    }
    from.deserialize_option(Optional)
}

/// Parses a whole number for an optional key, which a variable gives as text.
pub(super) fn optional_whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    struct Whole;
    impl<'de> Visitor<'de> for Whole {
        type Value = Option<u64>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a whole number")
        }

        fn visit_none<E: de::Error>(self) -> Result<Option<u64>, E> {
            Ok(None)
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<u64>, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<u64>, D::Error> {
            from.deserialize_any(self)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Option<u64>, E> {
            Ok(Some(number))
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Option<u64>, E> {
            u64::try_from(number)
                .map(Some)
                .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<u64>, E> {
            text.trim()
                .parse()
                .map(Some)
                .map_err(|_| E::custom(format!("{text:?} is not a whole number")))
        }
    }
    from.deserialize_option(Whole)
}

/// Parses a list, or one text with commas between the addresses, as in flags.
pub(super) fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Address>, D::Error> {
    struct Addresses;
    impl<'de> Visitor<'de> for Addresses {
        type Value = Vec<Address>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("HOST:PORT in quotes, or a list of them")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<Address>, E> {
            text.split(',')
                .map(|address| address.trim().parse().map_err(E::custom))
                .collect()
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Address>, A::Error> {
            std::iter::from_fn(|| list.next_element().transpose()).collect()
        }
    }
    from.deserialize_any(Addresses)
}

/// Parses a value from a string; holds the text about what is expected for other types.
struct Text<T>(&'static str, PhantomData<T>);

impl<T: FromStr<Err = InvalidText>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// A text that is not a value of the type; the text says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidText(pub(super) String);

impl InvalidText {
    pub(super) fn no_socket(text: &str) -> Self {
        Self(format!(
            "{text:?} is not ADDRESS:PORT, such as 127.0.0.1:1280 or [::]:1280; host names are not allowed here"
        ))
    }
}

/// A value that is not allowed: its key and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct InvalidValue {
    pub key: &'static str,
    pub reason: String,
}
