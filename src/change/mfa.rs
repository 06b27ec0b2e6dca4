//! Second factors: nothing happens with one beyond being written.

use super::Lifecycle;
use crate::entity::Mfa;

impl Lifecycle for Mfa {}
