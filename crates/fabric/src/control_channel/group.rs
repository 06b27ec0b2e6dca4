//! Groups of connections, which routers of version 2 open: what a hello says of its group, and what
//! the answer repeats.
//!
//! A router keeps the id and the secret of its group from the first answer until its process ends,
//! and accepts a later answer only if that repeats the secret. Invariant: the secret of a hello is
//! repeated, and neither kept for later nor checked. The certificate identifies the router, and a
//! controller that was restarted, or has taken over from another one, does not know the secret.

use wire::{
    control::key,
    frame::{Builder, Frame, key as common_key},
};

/// Maximum length of the secret of a group, in bytes.
const MAX_SECRET: usize = 64;

/// The group of a connection, as the router knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    id: Vec<u8>,
    secret: Vec<u8>,
}

impl Group {
    /// The group of a hello, with the number of the connection for what the hello does not say.
    /// `None` for a router before version 2.
    ///
    /// # Errors
    /// Why the hello is rejected.
    pub(crate) fn of(hello: &Frame, number: u64) -> Result<Option<Self>, &'static str> {
        if !is_grouped(hello) {
            return Ok(None);
        }
        let known = |key| {
            hello
                .header(key)
                .filter(|value| !value.is_empty())
                .map(<[u8]>::to_vec)
        };
        let made = || number.to_string().into_bytes();
        let secret = known(key::GROUP_SECRET).unwrap_or_else(made);
        if secret.len() > MAX_SECRET {
            return Err("the secret of a group of connections is longer than 64 bytes");
        }
        Ok(Some(Self {
            id: known(common_key::CONNECTION_ID).unwrap_or_else(made),
            secret,
        }))
    }

    /// Adds what an answer to a hello of this group repeats.
    pub(crate) fn repeat(&self, hello: &Frame, answer: Builder) -> Builder {
        let answer = answer
            .bytes(common_key::CONNECTION_ID, &self.id)
            .bytes(key::GROUP_SECRET, &self.secret);
        let repeated = [common_key::CHANNEL_TYPE, common_key::IS_GROUPED];
        repeated.into_iter().fold(answer, |answer, key| {
            answer.optional(key, hello.header(key))
        })
    }
}

/// Whether a hello is of a router of version 2: keys above 9 differ.
pub(crate) fn is_grouped(hello: &Frame) -> bool {
    hello.header(common_key::IS_GROUPED).is_some()
}

/// Whether the router has a connection of this group already, and opens a further one.
pub(crate) fn is_further(hello: &Frame) -> bool {
    is_grouped(hello) && !hello.is_set(key::HELLO_IS_FIRST)
}

/// Whether the process that sends a hello was connected before. Before version 2 it names its
/// previous connection, from then on it repeats the secret of its group.
pub(crate) fn is_reconnect(hello: &Frame) -> bool {
    let key = if is_grouped(hello) {
        key::GROUP_SECRET
    } else {
        common_key::CONNECTION_ID
    };
    hello.header(key).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::frame::content;

    /// The keys 0, 7, 9 and 10 of the answer to a hello with this id and secret.
    fn answered(id: Option<&str>, secret: Option<&[u8]>) -> Result<[Vec<u8>; 4], &'static str> {
        let hello = Builder::new(content::HELLO)
            .flag(9, true)
            .flag(11, true)
            .text(7, "ctrl.default");
        let hello = hello.optional(0, id).optional(10, secret).body(b"router");
        let group = Group::of(&hello, 5)?.unwrap();
        let answer = group
            .repeat(&hello, Builder::reply(content::RESULT, &hello))
            .empty();
        Ok([0, 7, 9, 10].map(|key| answer.header(key).unwrap().to_vec()))
    }

    #[test]
    fn answers_repeat_what_routers_know() {
        let expected = |id: &[u8], secret: &[u8]| {
            Ok([
                id.to_vec(),
                b"ctrl.default".to_vec(),
                vec![1],
                secret.to_vec(),
            ])
        };
        assert_eq!(
            answered(Some("67-1"), Some(b"67")),
            expected(b"67-1", b"67")
        );
        let secret: Vec<u8> = (0..16).map(|number| 251 - 17 * number / 2).collect();
        assert_eq!(
            answered(Some("XmgN-12"), Some(&secret)),
            expected(b"XmgN-12", &secret)
        );
        assert_eq!(
            answered(None, None),
            expected(b"5", b"5"),
            "a router that was started"
        );
        assert_eq!(
            answered(None, Some(b"")),
            expected(b"5", b"5"),
            "an empty secret is none"
        );
        assert!(answered(Some("67-1"), Some(&[7; 64])).is_ok());
        assert!(answered(Some("67-1"), Some(&[7; 65])).is_err());
    }
}
