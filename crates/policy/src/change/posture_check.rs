//! Posture checks: the type cannot be changed.

use model::{
    entity::{PostureCheck, Record},
    error::{Error, Result},
};

use super::{Change, Lifecycle};

impl Lifecycle for PostureCheck {
    fn edited(old: &Record<Self>, new: &mut Record<Self>, _: &Change<'_, '_>) -> Result<()> {
        let (was, is) = (old.spec.demand.kind(), new.spec.demand.kind());
        if was == is {
            Ok(())
        } else {
            Err(Error::invalid(
                "typeId",
                format!("cannot be changed from {}", was.as_str()),
                is.as_str(),
            ))
        }
    }
}
