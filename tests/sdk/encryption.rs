//! End-to-end encryption as the SDKs do it: X25519 key exchange, then one stream of
//! XChaCha20-Poly1305 in each direction (libsodium's `crypto_kx` and `crypto_secretstream`). The
//! header of a stream is the first message of its direction.

use dryoc::{
    dryocstream::{DryocStream, Header, Pull, Push, Tag},
    kx::{Session, StackKeyPair},
    types::{Bytes, StackByteArray},
};
use wire::frame::Builder;

use super::{Conn, Event, Host, Refused, Sdk, key};

/// The key pair of one end.
pub struct Keys(StackKeyPair);

type Key = StackByteArray<32>;

/// A connection with end-to-end encryption.
pub struct Sealed {
    pub conn: Conn,
    encryptor: DryocStream<Push>,
    decryptor: Decryptor,
}

/// Decrypts what is received.
enum Decryptor {
    /// The header of the other end has not been received yet.
    Waiting(Key),
    Open(DryocStream<Pull>),
}

impl Keys {
    /// Generates a key pair.
    pub fn new() -> Self {
        Self(StackKeyPair::generate())
    }

    /// The public key, which is sent to the other end.
    pub fn public(&self) -> &[u8] {
        self.0.public_key.as_slice()
    }
}

impl Sdk {
    /// Dials with the token of a session and agrees on keys with the host.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn dial_sealed(&self, token: &str) -> Result<Sealed, Refused> {
        let keys = Keys::new();
        let method = self.options.crypto_method;
        let offer = |connect: Builder| {
            connect
                .bytes(key::PUBLIC_KEY, keys.public())
                .optional(key::CRYPTO_METHOD, method)
        };
        let conn = self.dial_with(token, offer).await?;
        let session = Session::new_client(&keys.0, &peer_key(&conn)).expect("a public key");
        Ok(Sealed::over(conn, session).await)
    }

    /// Hosts with the token of a session and this key pair.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn host_sealed(&self, token: &str, keys: &Keys) -> Result<Host, Refused> {
        self.host_with(token, |bind| bind.bytes(key::PUBLIC_KEY, keys.public()))
            .await
    }
}

impl Host {
    /// Accepts the next connection with the key pair of the binding.
    pub async fn accept_sealed(&mut self, keys: &Keys) -> Sealed {
        let conn = self.accept().await;
        let session = Session::new_server(&keys.0, &peer_key(&conn)).expect("a public key");
        Sealed::over(conn, session).await
    }
}

/// The public key of the other end.
fn peer_key(conn: &Conn) -> Key {
    Key::try_from(
        conn.made_by
            .header(key::PUBLIC_KEY)
            .expect("the other end sends a public key"),
    )
    .expect("32 bytes")
}

impl Sealed {
    async fn over(conn: Conn, session: Session<Key>) -> Self {
        let (receiving, sending) = session.into_parts();
        let (encryptor, header): (_, Header) = DryocStream::init_push(&sending);
        conn.send(header.as_slice()).await;
        Self {
            conn,
            encryptor,
            decryptor: Decryptor::Waiting(receiving),
        }
    }

    /// Sends one message.
    pub async fn send(&mut self, message: &[u8]) {
        let sealed = self
            .encryptor
            .push_to_vec(message, None, Tag::Message)
            .expect("a message");
        self.conn.send(&sealed).await;
    }

    /// The next message; none once the other end has finished or the connection is closed.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let Event::Data(received) = self.conn.next().await else {
                return None;
            };
            match &mut self.decryptor {
                Decryptor::Open(stream) => {
                    return Some(
                        stream
                            .pull_to_vec(&received, None)
                            .expect("an authentic message")
                            .0,
                    );
                }
                Decryptor::Waiting(key) => {
                    let header =
                        Header::try_from(received.as_slice()).expect("a header of 24 bytes");
                    self.decryptor = Decryptor::Open(DryocStream::init_pull(key, &header));
                }
            }
        }
    }
}
