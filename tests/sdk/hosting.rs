//! Hosting a service.

use tokio::{sync::mpsc, time::timeout};
use wire::frame::{Builder, Frame};

use super::{Conn, PATIENCE, Refused, Sdk, key, kind};

/// A hosted service.
pub struct Host {
    pub sdk: Sdk,
    pub id: u32,
    pub token: String,
    /// The answer to the Bind.
    pub bound: Frame,
    messages: mpsc::Receiver<Frame>,
}

impl Sdk {
    /// Hosts with the token of a session; `more` adds headers.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn host_with(
        &self,
        token: &str,
        more: impl FnOnce(Builder) -> Builder,
    ) -> Result<Host, Refused> {
        self.host_as(self.next_id(), token, more).await
    }

    /// The same with a given connection id.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn host_as(
        &self,
        id: u32,
        token: &str,
        more: impl FnOnce(Builder) -> Builder,
    ) -> Result<Host, Refused> {
        let messages = self.take(id, 1 << 16);
        let bind = Builder::new(kind::BIND).u32(key::CONNECTION, id);
        let bind = if self.options.router_names {
            bind.flag(key::ROUTER_CONNECTION, true)
        } else {
            bind
        };
        let answer = self
            .ask(more(bind).body(token.as_bytes()))
            .await
            .ok_or_else(Refused::lost)?;
        assert_eq!(answer.u32(key::CONNECTION), Some(id));
        if answer.content_type() != kind::STATE_CONNECTED {
            assert_eq!(answer.content_type(), kind::STATE_CLOSED);
            self.forget(id);
            return Err(Refused::of(&answer));
        }
        assert_eq!(
            answer.is_set(key::ROUTER_CONNECTION),
            self.options.router_names
        );
        Ok(Host {
            sdk: self.clone(),
            id,
            token: token.to_owned(),
            bound: answer,
            messages,
        })
    }

    /// Hosts with the token of a session.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn host(&self, token: &str) -> Result<Host, Refused> {
        self.host_with(token, |bind| bind).await
    }
}

impl Host {
    /// The next message for the binding: a Dial, or its end.
    pub async fn message(&mut self) -> Option<Frame> {
        timeout(PATIENCE, self.messages.recv())
            .await
            .expect("nothing was received for a host")
    }

    /// Whether no message is waiting.
    pub fn is_idle(&mut self) -> bool {
        self.messages.try_recv().is_err()
    }

    /// The next Dial.
    pub async fn dialed(&mut self) -> Frame {
        let dial = self.message().await.expect("the channel was closed");
        assert_eq!(
            dial.content_type(),
            kind::DIAL,
            "{}",
            String::from_utf8_lossy(dial.body())
        );
        assert_eq!(dial.body(), self.token.as_bytes());
        dial
    }

    /// Waits until the binding has ended and returns why.
    pub async fn ended(&mut self) -> Refused {
        loop {
            let Some(frame) = self.message().await else {
                return Refused::lost();
            };
            if frame.content_type() == kind::STATE_CLOSED {
                return Refused::of(&frame);
            }
        }
    }

    /// Accepts a connection; `more` adds headers to the answer.
    pub async fn answer(&self, dial: Frame, more: impl FnOnce(Builder) -> Builder) -> Conn {
        let router_id = dial.u32(key::ROUTER_CONNECTION);
        assert_eq!(router_id.is_some(), self.sdk.options.router_names);
        let id = router_id.unwrap_or_else(|| self.sdk.next_id());
        let messages = self.sdk.take(id, self.sdk.options.window);
        let answer = Builder::reply(kind::DIAL_SUCCESS, &dial).u32(key::CONNECTION, self.id);
        let answer = match router_id {
            Some(id) => answer.u32(key::ROUTER_CONNECTION, id),
            None => answer,
        };
        let answer = more(answer).body(&id.to_le_bytes());
        if router_id.is_some() {
            drop(self.sdk.send(answer).await);
        } else {
            // A host that chooses connection ids itself is told that the router knows the id.
            let connected = self.sdk.ask(answer).await.expect("the channel was closed");
            assert_eq!(
                (connected.content_type(), connected.u32(key::CONNECTION)),
                (kind::STATE_CONNECTED, Some(self.id))
            );
        }
        Conn {
            sdk: self.sdk.clone(),
            id,
            made_by: dial,
            messages,
        }
    }

    /// Accepts the next connection.
    pub async fn accept(&mut self) -> Conn {
        let dial = self.dialed().await;
        self.answer(dial, |answer| answer).await
    }

    /// Refuses a connection.
    pub async fn refuse(&self, dial: &Frame, text: &str) {
        let answer = Builder::reply(kind::DIAL_FAILED, dial)
            .u32(key::CONNECTION, self.id)
            .body(text.as_bytes());
        drop(self.sdk.send(answer).await);
    }

    /// Unbinds and returns the router's answer.
    pub async fn unbind(&self) -> Option<Frame> {
        self.sdk
            .ask(
                Builder::new(kind::UNBIND)
                    .u32(key::CONNECTION, self.id)
                    .body(self.token.as_bytes()),
            )
            .await
    }

    /// Echoes the data of every connection while the channel is open.
    pub async fn echo(mut self) {
        while let Some(dial) = self.messages.recv().await {
            if dial.content_type() == kind::DIAL {
                let conn = self.answer(dial, |answer| answer).await;
                tokio::spawn(conn.echo());
            }
        }
    }
}
