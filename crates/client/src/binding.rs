//! Hosting a service over a channel to a router.

use std::{sync::Arc, time::Duration};

use wire::{
    frame::{Builder, Frame},
    sdk::{key, kind},
};

use crate::{
    channel::{Channel, ChannelError, Registration},
    cipher::KeyPair,
    connection::{Connection, DialError},
};

/// How long a router may take for the answer to a Bind.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a Bind says.
#[derive(Debug, Clone)]
pub struct Bind<'a> {
    /// The token of the session for the service.
    pub session: &'a str,
    /// Whether the service requires encryption between both ends.
    pub is_encrypted: bool,
    /// The identity of the terminator, by which it can be dialed.
    pub terminator: Option<&'a str>,
    /// The cost of the terminator.
    pub cost: u16,
    /// A name of this listener, which stays the same through reconnects.
    pub listener: &'a str,
}

/// A hosted service. It ends when it is dropped; its connections stay.
pub struct Binding {
    registration: Registration,
    session: String,
    keys: Option<Arc<KeyPair>>,
}

/// Somebody who dials the service, and waits for an answer.
pub struct Dialer {
    dial: Frame,
    channel: Channel,
    binding: u32,
    keys: Option<Arc<KeyPair>>,
}

impl Binding {
    /// Hosts a service over a channel.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn bind(channel: &Channel, bind: &Bind<'_>) -> Result<Self, DialError> {
        let registration = channel.register()?;
        let keys = bind.is_encrypted.then(|| Arc::new(KeyPair::generate()));
        let binding = Self {
            registration,
            session: bind.session.to_owned(),
            keys,
        };
        let request = Builder::new(kind::BIND)
            .u32(key::CONNECTION, binding.registration.id)
            .optional(
                key::PUBLIC_KEY,
                binding.keys.as_ref().map(|keys| keys.public()),
            )
            .optional(key::INSTANCE, bind.terminator)
            .u16(key::COST, bind.cost)
            .text(key::LISTENER, bind.listener)
            .flag(key::ROUTER_CONNECTION, true)
            .body(bind.session.as_bytes());
        let answer = channel.ask(request, PATIENCE).await?;
        if answer.content_type() == kind::STATE_CONNECTED {
            Ok(binding)
        } else {
            Err(DialError::refused_by(&answer))
        }
    }

    /// The next one who dials. A call that is cancelled loses nothing.
    ///
    /// # Errors
    /// The binding, or its channel, has ended.
    pub async fn next(&mut self) -> Result<Dialer, DialError> {
        loop {
            let Some(received) = self.registration.messages.recv().await else {
                let reason = self.registration.channel().end().await;
                return Err(ChannelError::Ended(reason).into());
            };
            let frame = &received.frame;
            match frame.content_type() {
                kind::DIAL => {
                    let dialer = Dialer {
                        dial: frame.clone(),
                        channel: self.registration.channel().clone(),
                        binding: self.registration.id,
                        keys: self.keys.clone(),
                    };
                    if frame.body() == self.session.as_bytes() {
                        return Ok(dialer);
                    }
                    dialer.reject("invalid token");
                }
                kind::STATE_CLOSED => return Err(DialError::refused_by(frame)),
                // What this binding does not ask for.
                _ => {}
            }
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        let unbind = Builder::new(kind::UNBIND)
            .u32(key::CONNECTION, self.registration.id)
            .body(self.session.as_bytes());
        self.registration.channel().send_later(unbind);
    }
}

impl Dialer {
    /// The name of the identity that dials, as the router says.
    pub fn name(&self) -> Option<&str> {
        let named = self.dial.text(key::DIALER_NAME);
        named.or_else(|| self.dial.text(key::CALLER))
    }

    /// What the dialer says to the application.
    pub fn app_data(&self) -> Option<&[u8]> {
        self.dial.header(key::APP_DATA)
    }

    /// Accepts the connection. Whatever it leads to must be there already, because data comes at
    /// once.
    ///
    /// # Errors
    /// The channel has ended, or the dialer sent no usable key.
    pub async fn accept(self) -> Result<Connection, DialError> {
        let Some(id) = self.dial.u32(key::ROUTER_CONNECTION) else {
            const TEXT: &str = "the router assigned no id to the connection";
            self.reject(TEXT);
            return Err(ChannelError::Refused(TEXT.to_owned()).into());
        };
        let dialer_key = self.dial.header(key::PUBLIC_KEY);
        let streams = self.keys.as_ref().map(|keys| keys.hosting(dialer_key));
        let streams = match streams.transpose() {
            Ok(streams) => streams,
            Err(error) => {
                self.reject(&error.to_string());
                return Err(error.into());
            }
        };
        let connection = Connection::of(self.channel.register_as(id)?);
        let accepted = Builder::reply(kind::DIAL_SUCCESS, &self.dial)
            .u32(key::CONNECTION, self.binding)
            .u32(key::ROUTER_CONNECTION, id)
            .body(&id.to_le_bytes());
        self.channel.send(accepted).await?;
        match streams {
            Some(streams) => connection.encrypted(streams).await,
            None => Ok(connection),
        }
    }

    /// Refuses the connection. The dialer sees the text.
    pub fn reject(&self, text: &str) {
        let rejected = Builder::reply(kind::DIAL_FAILED, &self.dial)
            .u32(key::CONNECTION, self.binding)
            .body(text.as_bytes());
        self.channel.send_later(rejected);
    }
}
