//! Standard output that can be closed, so that who reads it learns that nothing more will come.

use std::{
    fs::OpenOptions,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::stdio::dup2_stdout;
use tokio::io::{AsyncWrite, Stdout, stdout};

/// Standard output. After it was shut down, what the process prints is lost.
pub(crate) struct StandardOutput(Stdout);

impl StandardOutput {
    pub(crate) fn new() -> Self {
        Self(stdout())
    }
}

impl AsyncWrite for StandardOutput {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_flush(context))?;
        let nothing = OpenOptions::new().write(true).open("/dev/null")?;
        Poll::Ready(dup2_stdout(nothing).map_err(io::Error::from))
    }
}
