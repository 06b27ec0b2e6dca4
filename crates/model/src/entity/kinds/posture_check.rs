//! Posture checks: requirements on the endpoint of an identity for a service policy to grant
//! anything.

use query::{Type, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use crate::entity::posture_requirement::PostureRequirement;
use crate::entity::{
    Amount, Entity, Field, Kind, Lookup, Record, Roles, SpecEncoding, Stateful, Stored,
    VersionRange, kind::unreadable, unmatchable::Unmatchable,
};
use crate::error::{Error, Result};

/// A requirement on endpoints. The members besides `name` and `roleAttributes` depend on `typeId`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostureCheck {
    pub name: String,
    /// Names by which policies find the check.
    #[serde(default)]
    pub role_attributes: Roles,
    #[serde(flatten)]
    pub demand: PostureRequirement,
}

/// A posture check in responses.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureCheckDetail")]
pub struct View {
    name: String,
    role_attributes: Roles,
    /// Always 1.
    version: i64,
    #[serde(flatten)]
    demand: PostureRequirement,
}

impl Stateful for PostureCheck {
    type State = ();
}

impl Entity for PostureCheck {
    const KIND: Kind = Kind {
        name: "postureCheck",
        path: "posture-checks",
        noun: "posture check",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::every("name", |r| (&r.spec.name).into()),
        Field::unlisted("typeId", Type::Given, |r, _| {
            r.spec.demand.kind().as_str().into()
        }),
        Field::plain("promptOnUnlock", Type::Bool, |r| match r.spec.demand {
            PostureRequirement::Mfa {
                prompt_on_unlock, ..
            } => prompt_on_unlock.into(),
            _ => Value::Null,
        }),
        Field::plain("promptOnWake", Type::Bool, |r| match r.spec.demand {
            PostureRequirement::Mfa { prompt_on_wake, .. } => prompt_on_wake.into(),
            _ => Value::Null,
        }),
        Field::inner("roleAttributes", Type::Set, |r| {
            (&r.spec.role_attributes).into()
        }),
    ];
    const ENCODING: SpecEncoding = SpecEncoding::Text;
    const VERSION: u8 = 2;
    type View = View;

    fn tidy(&mut self) {
        self.demand.tidy();
    }

    /// Lists of version 1 may contain duplicates. They are normalized as if they were sent now.
    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, ())> {
        if version != 1 {
            return Err(unreadable(version));
        }
        let (mut spec, state) = old.read::<Self, ()>(Self::ENCODING)?;
        spec.tidy();
        Ok((spec, state))
    }

    fn check(&self, _: &dyn Lookup) -> Result<()> {
        if self.role_attributes.entries().contains("") {
            return Err(Error::invalid("roleAttributes", "must not be blank", ""));
        }
        let PostureRequirement::Os { operating_systems } = &self.demand else {
            return Ok(());
        };
        match operating_systems
            .iter()
            .flat_map(|os| &os.versions)
            .find(|text| VersionRange::parse(text).is_none())
        {
            Some(bad) => Err(Error::invalid(
                "operatingSystems",
                "must be a version range, such as >=10.0.0 or 1.x",
                bad,
            )),
            None => Ok(()),
        }
    }

    fn unmatchable(&self) -> Vec<Unmatchable> {
        self.demand.unmatchable()
    }

    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        vec![("roleAttributes", self.role_attributes.amount())]
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let Self {
            name,
            role_attributes,
            demand,
        } = record.spec.clone();
        Ok(View {
            name,
            role_attributes,
            version: 1,
            demand,
        })
    }
}
