//! The routers that are asked for their links (`link_questions.rs`).

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Maximum routers that are asked at the same time: the answer of a router that has a link to each
/// of 1,000 others has half a megabyte.
const MAX_ASKED: usize = 8;

/// The questions in progress.
pub(crate) struct AskedRouters {
    /// The routers that are asked, or will be after a pause.
    asking: Mutex<HashSet<String>>,
    pub places: Semaphore,
}

impl Default for AskedRouters {
    fn default() -> Self {
        Self {
            asking: Mutex::default(),
            places: Semaphore::new(MAX_ASKED),
        }
    }
}

impl AskedRouters {
    /// Records that a router is asked. Returns false if it was asked already.
    pub(crate) fn begin(&self, router: &str) -> bool {
        self.asking.lock().insert(router.to_owned())
    }

    pub(crate) fn end(&self, router: &str) {
        self.asking.lock().remove(router);
    }
}
