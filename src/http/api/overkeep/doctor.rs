//! What would trouble this controller on its host, each with what mends it.

use tokio::task::spawn_blocking;

use crate::{
    error::{Error, Result},
    http::{answer::Shown, call::Call},
    maintenance::doctor::{self, Finding},
};

/// GET /doctor
pub(crate) async fn findings(call: Call) -> Result<Shown<Vec<Finding>>> {
    let config = call.config.clone();
    let found = spawn_blocking(move || doctor::findings(&config)).await;
    found.map(Shown).map_err(|e| Error::Internal(format!("the checks of the host: {e}")))
}
