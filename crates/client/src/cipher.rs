//! Encryption between the two ends of a connection: X25519 key exchange, then one stream of
//! XChaCha20-Poly1305 in each direction (libsodium's `crypto_kx` and `crypto_secretstream`). The
//! header of a stream is the first message of its direction, or the beginning of it.

use dryoc::classic::{
    crypto_kx::{
        PublicKey, SecretKey, SessionKey, crypto_kx_client_session_keys, crypto_kx_keypair,
        crypto_kx_server_session_keys,
    },
    crypto_secretstream_xchacha20poly1305::{
        Header, State, crypto_secretstream_xchacha20poly1305_init_pull,
        crypto_secretstream_xchacha20poly1305_init_push,
        crypto_secretstream_xchacha20poly1305_pull, crypto_secretstream_xchacha20poly1305_push,
    },
};
use zeroize::Zeroizing;

/// Bytes of a header.
pub(crate) const HEADER: usize = size_of::<Header>();
/// Bytes that encryption adds to a message.
pub(crate) const ADDED: usize = 17;
/// The tag of every message: it has no meaning of its own.
const MESSAGE: u8 = 0;

/// What the other end sent is not what an honest one sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    #[error("the other end sent no usable public key")]
    Key,
    #[error("the other end began its stream with less than a header")]
    Header,
    #[error("a message was changed on its way, or is missing")]
    Message,
    #[error("a message is too long to be encrypted")]
    Length,
}

/// The keys of one end.
pub(crate) struct KeyPair {
    public: PublicKey,
    secret: Zeroizing<SecretKey>,
}

/// Encrypts what is sent.
pub(crate) struct Encryptor(State);

/// Decrypts what is received.
pub(crate) enum Decryptor {
    /// The header of the other end was not received yet.
    Waiting(Zeroizing<SessionKey>),
    Open(State),
}

impl KeyPair {
    pub(crate) fn generate() -> Self {
        let (public, secret) = crypto_kx_keypair();
        Self {
            public,
            secret: Zeroizing::new(secret),
        }
    }

    /// What the other end is told.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    /// The streams of the end that dials, and the header that it sends.
    ///
    /// # Errors
    /// [`CipherError::Key`].
    pub(crate) fn dialing(
        &self,
        host: Option<&[u8]>,
    ) -> Result<(Encryptor, Header, Decryptor), CipherError> {
        self.agree(host, |receiving, sending, host| {
            crypto_kx_client_session_keys(receiving, sending, &self.public, &self.secret, host)
        })
    }

    /// The streams of the end that hosts, and the header that it sends.
    ///
    /// # Errors
    /// [`CipherError::Key`].
    pub(crate) fn hosting(
        &self,
        dialer: Option<&[u8]>,
    ) -> Result<(Encryptor, Header, Decryptor), CipherError> {
        self.agree(dialer, |receiving, sending, dialer| {
            crypto_kx_server_session_keys(receiving, sending, &self.public, &self.secret, dialer)
        })
    }

    fn agree(
        &self,
        peer: Option<&[u8]>,
        keys: impl FnOnce(&mut SessionKey, &mut SessionKey, &PublicKey) -> Result<(), dryoc::Error>,
    ) -> Result<(Encryptor, Header, Decryptor), CipherError> {
        let peer: PublicKey = peer
            .and_then(|peer| peer.try_into().ok())
            .ok_or(CipherError::Key)?;
        let mut receiving = Zeroizing::new(SessionKey::default());
        let mut sending = Zeroizing::new(SessionKey::default());
        keys(&mut receiving, &mut sending, &peer).map_err(|_| CipherError::Key)?;
        let (mut state, mut header) = (State::new(), Header::default());
        crypto_secretstream_xchacha20poly1305_init_push(&mut state, &mut header, &sending);
        Ok((Encryptor(state), header, Decryptor::Waiting(receiving)))
    }
}

impl Encryptor {
    /// Encrypts a message into a place that is [`ADDED`] bytes longer.
    ///
    /// # Errors
    /// [`CipherError::Length`].
    pub(crate) fn encrypt(&mut self, message: &[u8], place: &mut [u8]) -> Result<(), CipherError> {
        crypto_secretstream_xchacha20poly1305_push(&mut self.0, place, message, None, MESSAGE)
            .map_err(|_| CipherError::Length)
    }
}

impl Decryptor {
    /// The text of a message; `None` for one that holds only the header.
    ///
    /// # Errors
    /// [`CipherError::Header`] or [`CipherError::Message`].
    pub(crate) fn decrypt(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, CipherError> {
        let message = match self {
            Self::Open(_) => received,
            Self::Waiting(key) => {
                let (header, rest) = received
                    .split_first_chunk::<HEADER>()
                    .ok_or(CipherError::Header)?;
                let mut state = State::new();
                crypto_secretstream_xchacha20poly1305_init_pull(&mut state, header, key);
                *self = Self::Open(state);
                if rest.is_empty() {
                    return Ok(None);
                }
                rest
            }
        };
        let Self::Open(state) = self else {
            return Err(CipherError::Header);
        };
        let length = message
            .len()
            .checked_sub(ADDED)
            .ok_or(CipherError::Message)?;
        let (mut text, mut tag) = (vec![0; length], MESSAGE);
        crypto_secretstream_xchacha20poly1305_pull(state, &mut text, &mut tag, message, None)
            .map_err(|_| CipherError::Message)?;
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (
        (Encryptor, Header, Decryptor),
        (Encryptor, Header, Decryptor),
    ) {
        let (dialer, host) = (KeyPair::generate(), KeyPair::generate());
        (
            dialer.dialing(Some(host.public())).unwrap(),
            host.hosting(Some(dialer.public())).unwrap(),
        )
    }

    fn encrypted(encryptor: &mut Encryptor, message: &[u8]) -> Vec<u8> {
        let mut place = vec![0; message.len() + ADDED];
        encryptor.encrypt(message, &mut place).unwrap();
        place
    }

    #[test]
    fn both_directions_are_read_in_order() {
        let ((mut to_host, header, mut from_host), (mut to_dialer, back, mut from_dialer)) = pair();
        assert_eq!(from_dialer.decrypt(&header), Ok(None));
        assert_eq!(from_host.decrypt(&back), Ok(None));
        for text in [&b"first"[..], b"", &[7; 70_000]] {
            let message = encrypted(&mut to_host, text);
            assert_eq!(from_dialer.decrypt(&message), Ok(Some(text.to_vec())));
            let message = encrypted(&mut to_dialer, text);
            assert_eq!(from_host.decrypt(&message), Ok(Some(text.to_vec())));
        }
    }

    /// A word of the recorded streams, from hexadecimal digits.
    fn recorded(word: &str) -> Vec<u8> {
        let digits = word.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn streams_of_libsodium_are_read() {
        let mut lines = include_str!("cipher/libsodium.txt")
            .lines()
            .filter(|line| !line.starts_with('#'));
        let mut keys = || {
            let words: Vec<&str> = lines.next().unwrap().split(' ').collect();
            KeyPair {
                secret: Zeroizing::new(recorded(words[1]).try_into().unwrap()),
                public: recorded(words[2]).try_into().unwrap(),
            }
        };
        let (dialer, host) = (keys(), keys());
        let (.., from_dialer) = host.hosting(Some(dialer.public())).unwrap();
        let (.., from_host) = dialer.dialing(Some(host.public())).unwrap();
        let mut readers = [("to-host", from_dialer), ("to-dialer", from_host)];
        let (mut place, mut number, mut read) = (0, 0, 0);
        for line in lines {
            if let Some((name, header)) = line.split_once(' ') {
                place = readers.iter().position(|one| one.0 == name).unwrap();
                assert_eq!(readers[place].1.decrypt(&recorded(header)), Ok(None));
                number = 0;
                continue;
            }
            let text = readers[place].1.decrypt(&recorded(line)).unwrap().unwrap();
            let expected = (0..text.len()).map(|place| ((7 * place + number) % 251) as u8);
            assert!(expected.eq(text), "message {number}");
            number += 1;
            read += 1;
        }
        assert_eq!(read, 24);
    }

    #[test]
    fn a_header_may_come_with_the_first_message() {
        let ((mut to_host, header, _), (.., mut from_dialer)) = pair();
        let message = [header.to_vec(), encrypted(&mut to_host, b"text")].concat();
        assert_eq!(from_dialer.decrypt(&message), Ok(Some(b"text".to_vec())));
    }

    #[test]
    fn changed_repeated_and_missing_messages_are_found() {
        let ((mut to_host, header, _), (.., mut from_dialer)) = pair();
        assert_eq!(from_dialer.decrypt(&header), Ok(None));
        let [first, second] = [b"1", b"2"].map(|text| encrypted(&mut to_host, text));
        let mut changed = first.clone();
        changed[0] ^= 1;
        assert_eq!(from_dialer.decrypt(&changed), Err(CipherError::Message));
        assert_eq!(from_dialer.decrypt(&second), Err(CipherError::Message));
        assert_eq!(from_dialer.decrypt(&first), Ok(Some(b"1".to_vec())));
        assert_eq!(from_dialer.decrypt(&first), Err(CipherError::Message));
    }

    #[test]
    fn keys_and_messages_of_other_lengths_are_rejected() {
        let keys = KeyPair::generate();
        for peer in [None, Some(&[1; 31][..]), Some(&[1; 33]), Some(&[0; 32])] {
            assert_eq!(keys.dialing(peer).err(), Some(CipherError::Key));
        }
        let (_, (.., mut from_dialer)) = pair();
        assert_eq!(from_dialer.decrypt(&[0; 23]), Err(CipherError::Header));
        assert_eq!(from_dialer.decrypt(&[0; HEADER]), Ok(None));
        assert_eq!(
            from_dialer.decrypt(&[0; ADDED - 1]),
            Err(CipherError::Message)
        );
    }
}
