//! End-to-end encryption as the SDKs do it: X25519 key exchange, then one stream of XChaCha20-Poly1305 in each direction (libsodium's
//! `crypto_kx` and `crypto_secretstream`). The header of a stream is the first message of its direction.

use dryoc::{
    dryocstream::{DryocStream, Header, Pull, Push, Tag},
    kx::{Session, StackKeyPair},
    types::StackByteArray,
};

/// The keys of one end.
#[derive(Clone)]
pub struct Keys(StackKeyPair);

type Key = StackByteArray<32>;

/// The two directions of one connection.
pub struct Cipher {
    pub sealer: Sealer,
    pub opener: Opener,
    /// To be sent before anything else.
    pub header: Vec<u8>,
}

/// Encrypts what is sent.
pub struct Sealer(DryocStream<Push>);

/// Decrypts what is received.
pub enum Opener {
    /// The header of the other end has not come yet.
    Waiting(Key),
    Open(DryocStream<Pull>),
}

impl Keys {
    /// New ones.
    pub fn new() -> Self {
        Self(StackKeyPair::generate())
    }

    /// What the other end is shown.
    pub fn public(&self) -> &[u8] {
        self.0.public_key.as_slice()
    }

    /// The cipher of the end that dialed, with what the host showed.
    ///
    /// # Errors
    /// That is no key.
    pub fn of_dialer(&self, host: &[u8]) -> Result<Cipher, String> {
        let session = Session::<Key>::new_client(&self.0, &key(host)?).map_err(|error| error.to_string())?;
        Ok(Cipher::of(session))
    }

    /// The cipher of the host, with what the dialer showed.
    ///
    /// # Errors
    /// That is no key.
    pub fn of_host(&self, dialer: &[u8]) -> Result<Cipher, String> {
        let session = Session::<Key>::new_server(&self.0, &key(dialer)?).map_err(|error| error.to_string())?;
        Ok(Cipher::of(session))
    }
}

fn key(bytes: &[u8]) -> Result<Key, String> {
    Key::try_from(bytes).map_err(|_| format!("a public key of {} bytes", bytes.len()))
}

impl Cipher {
    fn of(session: Session<Key>) -> Self {
        let (receiving, sending) = session.into_parts();
        let (stream, header): (_, Header) = DryocStream::init_push(&sending);
        Self { sealer: Sealer(stream), opener: Opener::Waiting(receiving), header: header.as_slice().to_vec() }
    }
}

impl Sealer {
    /// The message as it is sent.
    pub fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        self.0.push_to_vec(message, None, Tag::Message).unwrap()
    }
}

impl Opener {
    /// The message that was sent; none for the header.
    ///
    /// # Errors
    /// It was changed on its way, or came in another order.
    pub fn open(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Open(stream) => stream.pull_to_vec(received, None).map(|(message, _)| Some(message)).map_err(|error| error.to_string()),
            Self::Waiting(key) => {
                let header = Header::try_from(received).map_err(|_| format!("a header of {} bytes", received.len()))?;
                *self = Self::Open(DryocStream::init_pull(key, &header));
                Ok(None)
            }
        }
    }
}
