//! Posture checks: what the endpoint of an identity must be like before a service policy grants anything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::posture_demand::Demand;
use super::{Amount, Disk, Entity, Facts, Field, Kind, Record, Roles, Stateful, Stored, VersionRange, kind::unreadable};
use crate::{
    error::{Error, Result},
    query::{Type, Value},
};

/// A demand on endpoints. The members beside `name` and `roleAttributes` depend on `typeId`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostureCheck {
    pub name: String,
    /// Names by which policies find the check.
    #[serde(default)]
    pub role_attributes: Roles,
    #[serde(flatten)]
    pub demand: Demand,
}

/// A posture check as clients see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureCheckDetail")]
pub struct View {
    name: String,
    role_attributes: Roles,
    /// Always 1.
    version: i64,
    #[serde(flatten)]
    demand: Demand,
}

impl Stateful for PostureCheck {
    type State = ();
}

impl Entity for PostureCheck {
    const KIND: Kind = Kind { name: "postureCheck", path: "posture-checks" };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::plain("promptOnUnlock", Type::Bool, |r| match r.spec.demand {
            Demand::Mfa { prompt_on_unlock, .. } => prompt_on_unlock.into(),
            _ => Value::Null,
        }),
        Field::plain("promptOnWake", Type::Bool, |r| match r.spec.demand {
            Demand::Mfa { prompt_on_wake, .. } => prompt_on_wake.into(),
            _ => Value::Null,
        }),
        Field::inner("roleAttributes", Type::Set, |r| (&r.spec.role_attributes).into()),
    ];
    const DISK: Disk = Disk::Text;
    const VERSION: u8 = 2;
    type View = View;

    fn tidy(&mut self) {
        self.demand.tidy();
    }

    /// Of version 1 lists could name something twice. It means from now on what it would mean if it were sent now.
    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, ())> {
        if version != 1 {
            return Err(unreadable(version));
        }
        let (mut spec, state) = old.read::<Self, ()>(Self::DISK)?;
        spec.tidy();
        Ok((spec, state))
    }

    fn check(&self, _: &dyn Facts) -> Result<()> {
        if self.role_attributes.entries().contains("") {
            return Err(Error::invalid("roleAttributes", "must not be blank", ""));
        }
        let Demand::Os { operating_systems } = &self.demand else { return Ok(()) };
        match operating_systems.iter().flat_map(|os| &os.versions).find(|text| VersionRange::parse(text).is_none()) {
            Some(bad) => Err(Error::invalid("operatingSystems", "is no range of versions", bad)),
            None => Ok(()),
        }
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![("roleAttributes", self.role_attributes.amount())]
    }

    fn view(record: &Record<Self>, _: &dyn Facts) -> Result<View> {
        let Self { name, role_attributes, demand } = record.spec.clone();
        Ok(View { name, role_attributes, version: 1, demand })
    }
}
