//! Traffic on a circuit to an echoing host, in which every byte must come back in order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    scene::{runtime, soon},
    sdk::{Conn, Event, PATIENCE},
};

/// How many messages are under way.
const WINDOW: u64 = 4;

/// The traffic of one circuit.
pub struct Traffic {
    task: JoinHandle<Option<Conn>>,
    echoes: Arc<AtomicU64>,
    is_stopping: Arc<AtomicBool>,
}

/// The message with this number, which differs from others in length and content.
fn message(number: u64) -> Vec<u8> {
    number
        .to_le_bytes()
        .repeat(1 + usize::try_from(number * 37 % 200).unwrap())
}

/// Sends and compares until it is told to stop, then until everything came back; `None` if the
/// circuit ended before.
async fn carry(mut conn: Conn, echoes: &AtomicU64, is_stopping: &AtomicBool) -> Option<Conn> {
    let (mut sent, mut received) = (0, 0);
    loop {
        while sent < received + WINDOW && !is_stopping.load(Ordering::Relaxed) {
            conn.send(&message(sent)).await;
            sent += 1;
        }
        if sent == received {
            return Some(conn);
        }
        match conn.next().await {
            Event::Data(data) => assert_eq!(
                data,
                message(received),
                "message {received} came back changed"
            ),
            Event::Fin => panic!("nobody finishes"),
            Event::Closed(_) | Event::Lost => return None,
        }
        received += 1;
        echoes.store(received, Ordering::Relaxed);
        sleep(Duration::from_millis(2)).await;
    }
}

impl Traffic {
    /// Starts traffic on a circuit.
    pub fn on(conn: Conn) -> Self {
        let (echoes, is_stopping) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, stopped) = (echoes.clone(), is_stopping.clone());
        let task = runtime().spawn(async move { carry(conn, &counted, &stopped).await });
        Self {
            task,
            echoes,
            is_stopping,
        }
    }

    /// Waits until it has carried more than now.
    #[track_caller]
    pub fn goes_on(&self) {
        let before = self.echoes.load(Ordering::Relaxed);
        assert!(soon(|| self.echoes.load(Ordering::Relaxed)
            > before + WINDOW
            || self.task.is_finished()));
        assert!(
            !self.task.is_finished(),
            "the circuit has ended, or its data was changed"
        );
    }

    /// Waits until the circuit has ended.
    pub async fn ended(self) {
        let left = timeout(PATIENCE, self.task)
            .await
            .expect("the circuit stays open")
            .unwrap();
        assert!(left.is_none());
    }

    /// Waits until everything came back, and returns the open circuit.
    pub async fn complete(self) -> Conn {
        self.is_stopping.store(true, Ordering::Relaxed);
        timeout(PATIENCE, self.task)
            .await
            .expect("data is missing")
            .unwrap()
            .expect("the circuit has ended")
    }
}
