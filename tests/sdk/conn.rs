//! A connection, dialed or accepted.

use tokio::{sync::mpsc, time::timeout};
use wire::frame::{Builder, Frame};

use super::{FIN, PATIENCE, Refused, Sdk, key, kind};

/// A connection.
pub struct Conn {
    pub sdk: Sdk,
    pub id: u32,
    /// The message that opened it: StateConnected for the dialing side, Dial for the accepting
    /// side.
    pub made_by: Frame,
    pub(super) messages: mpsc::Receiver<Frame>,
}

/// What is received on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Data(Vec<u8>),
    /// The other end has finished sending.
    Fin,
    Closed(Refused),
    /// The channel is closed.
    Lost,
}

impl Sdk {
    /// Dials with the token of a session; `more` adds headers.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn dial_with(
        &self,
        token: &str,
        more: impl FnOnce(Builder) -> Builder,
    ) -> Result<Conn, Refused> {
        let id = self.next_id();
        // Data may follow the answer immediately.
        let messages = self.take(id, self.options.window);
        let connect =
            more(Builder::new(kind::CONNECT).u32(key::CONNECTION, id)).body(token.as_bytes());
        let answer = self.ask(connect).await.ok_or_else(Refused::lost)?;
        assert_eq!(answer.u32(key::CONNECTION), Some(id));
        if answer.content_type() != kind::STATE_CONNECTED {
            assert_eq!(answer.content_type(), kind::STATE_CLOSED);
            self.forget(id);
            return Err(Refused::of(&answer));
        }
        Ok(Conn {
            sdk: self.clone(),
            id,
            made_by: answer,
            messages,
        })
    }

    /// Dials with the token of a session.
    ///
    /// # Errors
    /// The refusal of the router.
    pub async fn dial(&self, token: &str) -> Result<Conn, Refused> {
        self.dial_with(token, |connect| connect.text(key::CALLER, "somebody"))
            .await
    }
}

impl Conn {
    /// Sends one data message.
    pub async fn send(&self, data: &[u8]) {
        let frame = Builder::new(kind::DATA)
            .u32(key::CONNECTION, self.id)
            .u32(1001, 1)
            .body(data);
        drop(self.sdk.send(frame).await);
    }

    /// Finishes sending.
    pub async fn finish(&self) {
        let frame = Builder::new(kind::DATA)
            .u32(key::CONNECTION, self.id)
            .u32(key::FLAGS, FIN)
            .empty();
        drop(self.sdk.send(frame).await);
    }

    /// Closes the connection.
    pub async fn close(&self) {
        drop(
            self.sdk
                .send(
                    Builder::new(kind::STATE_CLOSED)
                        .u32(key::CONNECTION, self.id)
                        .body(b"done"),
                )
                .await,
        );
        self.sdk.forget(self.id);
    }

    /// The next message; none if the channel is closed.
    pub async fn message(&mut self) -> Option<Frame> {
        timeout(PATIENCE, self.messages.recv())
            .await
            .expect("nothing was received on a connection")
    }

    /// The next message, without a timeout.
    pub async fn messages(&mut self) -> Option<Frame> {
        self.messages.recv().await
    }

    /// The next event.
    pub async fn next(&mut self) -> Event {
        let Some(frame) = self.message().await else {
            return Event::Lost;
        };
        match frame.content_type() {
            kind::DATA if frame.u32(key::FLAGS).unwrap_or_default() & FIN != 0 => Event::Fin,
            kind::DATA => Event::Data(frame.body().to_vec()),
            kind::STATE_CLOSED => Event::Closed(Refused::of(&frame)),
            other => panic!("a message of type {other} on a connection"),
        }
    }

    /// The next data.
    pub async fn data(&mut self) -> Vec<u8> {
        match self.next().await {
            Event::Data(data) => data,
            other => panic!("no data but {other:?}"),
        }
    }

    /// All data until the other end finishes sending.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Event::Data(data) => all.extend(data),
                Event::Fin => return all,
                other => panic!("neither data nor its end but {other:?}"),
            }
        }
    }

    /// Skips data and returns why the connection was closed.
    pub async fn ended(&mut self) -> Refused {
        loop {
            match self.next().await {
                Event::Closed(reason) => return reason,
                Event::Lost => return Refused::lost(),
                _ => {}
            }
        }
    }

    /// Sends back all data until the other end finishes sending.
    pub async fn echo(mut self) {
        loop {
            match self.next().await {
                Event::Data(data) => self.send(&data).await,
                Event::Fin => self.finish().await,
                Event::Closed(_) | Event::Lost => return self.sdk.forget(self.id),
            }
        }
    }
}
