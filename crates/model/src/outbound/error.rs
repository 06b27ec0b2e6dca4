//! Why a request to another server has no usable answer.

use std::{io, sync::Arc};

/// Why there is no answer that can be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HttpError {
    /// TLS cannot be set up, which is a defect.
    #[error("{0}")]
    Tls(pki::Error),
    /// The URL of the server that chose the other ones is none.
    #[error("the URL of the server cannot be read")]
    Origin,
    /// No connection, no TLS session, or no answer in time.
    #[error("{0}")]
    Exchange(Arc<ureq::Error>),
    #[error("the answer is compressed in another way than gzip")]
    Compressed,
    /// The body ended before it was complete, or is not what its header says.
    #[error("{0}")]
    Body(Arc<io::Error>),
    #[error("the answer is longer than {0} bytes")]
    TooLong(u64),
}

impl From<ureq::Error> for HttpError {
    fn from(error: ureq::Error) -> Self {
        Self::Exchange(Arc::new(error))
    }
}
