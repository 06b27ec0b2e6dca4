//! The texts of the OpenAPI documents. Each text is generated on its first request and then kept.

use std::sync::{Arc, LazyLock, OnceLock};

use model::error::{Error, Result};
use serde_json::Value as Json;

use crate::gzip::Constant;

/// The OpenAPI document of an interface, built when it is first asked for: a controller that nobody
/// asks starts sooner without.
pub type LazyDocument = LazyLock<Json, Box<dyn FnOnce() -> Json + Send>>;

/// The OpenAPI documents of the interfaces.
pub struct Descriptions {
    pub management: Description,
    pub client: Description,
    pub overkeep: Description,
    pub fabric: Description,
}

/// An OpenAPI document as text.
pub struct Description {
    document: Arc<LazyDocument>,
    json: OnceLock<Constant>,
    yaml: OnceLock<Constant>,
}

impl Description {
    /// Wraps a document.
    pub fn new(document: Arc<LazyDocument>) -> Self {
        Self {
            document,
            json: OnceLock::new(),
            yaml: OnceLock::new(),
        }
    }

    /// As JSON.
    ///
    /// # Errors
    /// It cannot be serialized, which is a defect.
    pub fn json(&self) -> Result<Constant> {
        get_or_write(&self.json, || {
            serde_json::to_vec(&**self.document).map_err(|e| {
                Error::Internal(format!("cannot write an OpenAPI document as JSON: {e}"))
            })
        })
    }

    /// As YAML.
    ///
    /// # Errors
    /// It cannot be serialized, which is a defect.
    pub fn yaml(&self) -> Result<Constant> {
        let text = || {
            serde_saphyr::to_string(&**self.document).map_err(|e| {
                Error::Internal(format!("cannot write an OpenAPI document as YAML: {e}"))
            })
        };
        get_or_write(&self.yaml, || text().map(String::into_bytes))
    }
}

fn get_or_write(
    cell: &OnceLock<Constant>,
    write: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Constant> {
    if let Some(text) = cell.get() {
        return Ok(text.clone());
    }
    let text = Constant::new(write()?.into());
    Ok(cell.get_or_init(|| text).clone())
}
