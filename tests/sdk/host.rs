//! Hosting a service.

use overkeep::frame::{Builder, Frame};
use tokio::{sync::mpsc, time::timeout};

use super::{Conn, PATIENCE, Refused, Sdk, key, kind};

/// A service that is hosted.
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
    /// What the router answers, if it refuses.
    pub async fn host_with(&self, token: &str, more: impl FnOnce(Builder) -> Builder) -> Result<Host, Refused> {
        self.host_as(self.next_id(), token, more).await
    }

    /// The same under a connection id.
    ///
    /// # Errors
    /// What the router answers, if it refuses.
    pub async fn host_as(&self, id: u32, token: &str, more: impl FnOnce(Builder) -> Builder) -> Result<Host, Refused> {
        let messages = self.take(id, 1 << 16);
        let bind = Builder::new(kind::BIND).u32(key::CONNECTION, id);
        let bind = if self.options.router_names { bind.flag(key::ROUTER_CONNECTION, true) } else { bind };
        let answer = self.ask(more(bind).body(token.as_bytes())).await.ok_or_else(Refused::lost)?;
        assert_eq!(answer.u32(key::CONNECTION), Some(id));
        if answer.content_type() != kind::STATE_CONNECTED {
            assert_eq!(answer.content_type(), kind::STATE_CLOSED);
            self.forget(id);
            return Err(Refused::of(&answer));
        }
        assert_eq!(answer.is_set(key::ROUTER_CONNECTION), self.options.router_names);
        Ok(Host { sdk: self.clone(), id, token: token.to_owned(), bound: answer, messages })
    }

    /// Hosts with the token of a session.
    ///
    /// # Errors
    /// What the router answers, if it refuses.
    pub async fn host(&self, token: &str) -> Result<Host, Refused> {
        self.host_with(token, |bind| bind).await
    }
}

impl Host {
    /// The next message for it: a Dial, or that it has ended.
    pub async fn message(&mut self) -> Option<Frame> {
        timeout(PATIENCE, self.messages.recv()).await.expect("nothing comes for a host")
    }

    /// Whether nothing waits for it now.
    pub fn is_idle(&mut self) -> bool {
        self.messages.try_recv().is_err()
    }

    /// The next Dial.
    pub async fn dialled(&mut self) -> Frame {
        let dial = self.message().await.expect("the channel was closed");
        assert_eq!(dial.content_type(), kind::DIAL, "{}", String::from_utf8_lossy(dial.body()));
        assert_eq!(dial.body(), self.token.as_bytes());
        dial
    }

    /// Waits until it has ended, and answers why.
    pub async fn ended(&mut self) -> Refused {
        loop {
            let Some(frame) = self.message().await else { return Refused::lost() };
            if frame.content_type() == kind::STATE_CLOSED {
                return Refused::of(&frame);
            }
        }
    }

    /// Accepts a connection with more headers in the answer.
    pub async fn answer(&self, dial: Frame, more: impl FnOnce(Builder) -> Builder) -> Conn {
        let given = dial.u32(key::ROUTER_CONNECTION);
        assert_eq!(given.is_some(), self.sdk.options.router_names);
        let id = given.unwrap_or_else(|| self.sdk.next_id());
        let messages = self.sdk.take(id, self.sdk.options.window);
        let answer = Builder::reply(kind::DIAL_SUCCESS, &dial).u32(key::CONNECTION, self.id);
        let answer = match given {
            Some(id) => answer.u32(key::ROUTER_CONNECTION, id),
            None => answer,
        };
        let answer = more(answer).body(&id.to_le_bytes());
        if given.is_some() {
            drop(self.sdk.send(answer).await);
        } else {
            // Whoever names its connections itself is told that the router knows the name.
            let connected = self.sdk.ask(answer).await.expect("the channel was closed");
            assert_eq!((connected.content_type(), connected.u32(key::CONNECTION)), (kind::STATE_CONNECTED, Some(self.id)));
        }
        Conn { sdk: self.sdk.clone(), id, made_by: dial, messages }
    }

    /// Accepts the next connection.
    pub async fn accept(&mut self) -> Conn {
        let dial = self.dialled().await;
        self.answer(dial, |answer| answer).await
    }

    /// Refuses a connection.
    pub async fn refuse(&self, dial: &Frame, text: &str) {
        let answer = Builder::reply(kind::DIAL_FAILED, dial).u32(key::CONNECTION, self.id).body(text.as_bytes());
        drop(self.sdk.send(answer).await);
    }

    /// Hosts no longer, and answers what the router says to that.
    pub async fn unbind(&self) -> Option<Frame> {
        self.sdk.ask(Builder::new(kind::UNBIND).u32(key::CONNECTION, self.id).body(self.token.as_bytes())).await
    }

    /// Sends back whatever comes on any connection, as long as the channel is open.
    pub async fn echo(mut self) {
        while let Some(dial) = self.messages.recv().await {
            if dial.content_type() == kind::DIAL {
                let conn = self.answer(dial, |answer| answer).await;
                tokio::spawn(conn.echo());
            }
        }
    }
}
