//! A progress bar, shown only on a terminal.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use store::Progress;

const TICK: Duration = Duration::from_millis(100);
/// The number of characters of a full bar.
const WIDTH: u64 = 40;

/// A progress bar in the last line of a terminal; erased on drop.
#[derive(Default)]
pub(crate) struct Bar {
    drawn: bool,
}

impl Bar {
    /// Shows that `done` of `total` rows are done. Errors are ignored.
    pub(crate) fn show(&mut self, done: u64, total: u64) {
        if total == 0 || !stderr().is_terminal() {
            return;
        }
        self.drawn = true;
        let done = done.min(total);
        let full = usize::try_from(u128::from(WIDTH) * u128::from(done) / u128::from(total))
            .unwrap_or_default();
        let percent = u128::from(done) * 100 / u128::from(total);
        drop(write!(
            stderr(),
            "\r[{:<width$}] {percent:>3} %",
            "#".repeat(full),
            width = WIDTH as usize
        ));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn {
            drop(write!(stderr(), "\r\x1b[K"));
        }
    }
}

/// Runs `work` and shows its progress.
pub(crate) fn with_progress<T>(work: impl FnOnce(&Arc<Progress>) -> T) -> T {
    let watch = Arc::new(Progress::default());
    thread::scope(|scope| {
        let (working, ended) = mpsc::channel::<()>();
        let seen = watch.clone();
        scope.spawn(move || {
            let mut bar = Bar::default();
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let (done, total) = seen.done_and_total();
                bar.show(done, total);
            }
        });
        let _until_it_ends = working;
        work(&watch)
    })
}
