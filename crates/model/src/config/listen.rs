//! The addresses that a controller listens on.
//!
//! Not here: the addresses that clients connect to (`Address`). Invariant: there is at least one
//! address, and none occurs twice.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::value::InvalidText;

/// One or more socket addresses of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen(Vec<SocketAddr>);

impl Listen {
    /// All addresses, in the given order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }

    fn of(addresses: Vec<SocketAddr>) -> Result<Listen, InvalidText> {
        let twice = addresses.iter().enumerate().find(|(at, address)| {
            address.port() != 0 && addresses.iter().take(*at).any(|other| other == *address)
        });
        match twice {
            _ if addresses.is_empty() => {
                let reason = "the list is empty; at least one ADDRESS:PORT is required";
                Err(InvalidText(reason.into()))
            }
            Some((_, address)) => Err(InvalidText(format!("{address} is given twice"))),
            None => Ok(Listen(addresses)),
        }
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Listen(vec![address])
    }
}

/// Separated by commas, as in flags.
impl FromStr for Listen {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Listen, InvalidText> {
        let addresses = text
            .split(',')
            .map(str::trim)
            .map(|part| part.parse().map_err(|_| InvalidText::no_socket(part)));
        Listen::of(addresses.collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&addresses.join(", "))
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => to.collect_str(one),
            several => to.collect_seq(several.iter().map(ToString::to_string)),
        }
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Listen, D::Error> {
        from.deserialize_any(ListenAddresses)
    }
}

struct ListenAddresses;

impl<'de> Visitor<'de> for ListenAddresses {
    type Value = Listen;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ADDRESS:PORT in quotes, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Listen, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Listen, A::Error> {
        let mut addresses = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            addresses.extend_from_slice(
                text.parse::<Listen>()
                    .map_err(de::Error::custom)?
                    .addresses(),
            );
        }
        Listen::of(addresses).map_err(de::Error::custom)
    }
}
