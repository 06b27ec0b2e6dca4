//! Hosting a service over a channel to a router.

use std::{sync::Arc, time::Duration};

use model::entity::Precedence;
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
    pub precedence: Precedence,
    /// A name of this listener, which stays the same through reconnects.
    pub listener: &'a str,
}

/// A precedence in messages.
fn byte(precedence: Precedence) -> u8 {
    match precedence {
        Precedence::Default => 0,
        Precedence::Required => 1,
        Precedence::Failed => 2,
    }
}

/// What a host says about a terminator while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) cost: u16,
    pub(crate) precedence: Precedence,
    /// How many times the result of a health check was to be announced.
    pub(crate) events: u64,
    /// The result that is to be announced.
    pub(crate) has_passed: bool,
}

/// A hosted service. It ends when it is dropped; its connections stay.
pub struct Binding {
    registration: Registration,
    session: String,
    keys: Option<Arc<KeyPair>>,
}

/// Somebody who dials the service, and waits for an answer. Dropping it refuses the connection.
pub struct Dialer {
    dial: Frame,
    binding: u32,
    keys: Option<Arc<KeyPair>>,
    /// The id of the connection, whose end the router may announce before there is an answer. `None`
    /// once there is one.
    registration: Option<Registration>,
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
            .bytes(key::PRECEDENCE, &[byte(bind.precedence)])
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
                kind::DIAL => match self.dialer(frame) {
                    Ok(dialer) => return Ok(dialer),
                    Err(text) => {
                        let rejected = rejected(frame, self.registration.id, &text);
                        self.registration.channel().send(rejected).await?;
                    }
                },
                kind::STATE_CLOSED => return Err(DialError::refused_by(frame)),
                // What this binding does not ask for.
                _ => {}
            }
        }
    }
}

impl Binding {
    /// Tells the router another cost or precedence.
    ///
    /// # Errors
    /// The channel has ended.
    pub(crate) async fn update(&self, standing: &Standing) -> Result<(), ChannelError> {
        let update = Builder::new(kind::UPDATE_BIND)
            .u32(key::CONNECTION, self.registration.id)
            .u16(key::COST, standing.cost)
            .bytes(key::PRECEDENCE, &[byte(standing.precedence)])
            .body(self.session.as_bytes());
        self.registration.channel().send(update).await
    }

    /// Announces the result of a health check.
    ///
    /// # Errors
    /// The channel has ended.
    pub(crate) async fn announce(&self, has_passed: bool) -> Result<(), ChannelError> {
        let event = Builder::new(kind::HEALTH_EVENT)
            .u32(key::CONNECTION, self.registration.id)
            .flag(key::HEALTH_PASSED, has_passed)
            .body(self.session.as_bytes());
        self.registration.channel().send(event).await
    }

    /// Who sent a Dial.
    ///
    /// # Errors
    /// The words of the refusal.
    fn dialer(&self, dial: &Frame) -> Result<Dialer, String> {
        if dial.body() != self.session.as_bytes() {
            return Err("invalid token".to_owned());
        }
        let id = dial
            .u32(key::ROUTER_CONNECTION)
            .ok_or("the router assigned no id to the connection")?;
        let channel = self.registration.channel();
        let registered = channel.register_as(id).map_err(|error| error.to_string())?;
        Ok(Dialer {
            dial: dial.clone(),
            binding: self.registration.id,
            keys: self.keys.clone(),
            registration: Some(registered),
        })
    }
}

/// The refusal of a Dial.
fn rejected(dial: &Frame, binding: u32, text: &str) -> Frame {
    Builder::reply(kind::DIAL_FAILED, dial)
        .u32(key::CONNECTION, binding)
        .body(text.as_bytes())
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
    /// The channel has ended, the dialer has given up, or it sent no usable key.
    pub async fn accept(mut self) -> Result<Connection, DialError> {
        let dialer_key = self.dial.header(key::PUBLIC_KEY);
        let streams = self.keys.as_ref().map(|keys| keys.hosting(dialer_key));
        let streams = match streams.transpose() {
            Ok(streams) => streams,
            Err(error) => {
                self.reject(&error.to_string()).await;
                return Err(error.into());
            }
        };
        let Some(mut registration) = self.registration.take() else {
            return Err(ChannelError::Refused("it was answered already".to_owned()).into());
        };
        if let Ok(early) = registration.messages.try_recv()
            && early.frame.content_type() == kind::STATE_CLOSED
        {
            return Err(DialError::refused_by(&early.frame));
        }
        let accepted = Builder::reply(kind::DIAL_SUCCESS, &self.dial)
            .u32(key::CONNECTION, self.binding)
            .u32(key::ROUTER_CONNECTION, registration.id)
            .body(&registration.id.to_le_bytes());
        let channel = registration.channel().clone();
        let connection = Connection::of(registration);
        channel.send(accepted).await?;
        match streams {
            Some(streams) => connection.encrypted(streams).await,
            None => Ok(connection),
        }
    }

    /// Refuses the connection. The dialer sees the text.
    pub async fn reject(mut self, text: &str) {
        if let Some(registration) = self.registration.take() {
            let rejected = rejected(&self.dial, self.binding, text);
            // If the channel has ended, the dialer has learnt that already.
            drop(registration.channel().send(rejected).await);
        }
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        if let Some(registration) = self.registration.take() {
            let rejected = rejected(&self.dial, self.binding, "the host did not answer");
            registration.channel().send_later(rejected);
        }
    }
}
