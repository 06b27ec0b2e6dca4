//! With which cost and precedence an identity hosts services, in the messages of routers.

use model::entity::{Identity, Precedence, Record};
use wire::control::{fabric::TerminatorPrecedence, tunnel};

/// The precedences and the costs with which an identity hosts services.
pub(crate) fn hosting(
    identity: &Record<Identity>,
) -> (Vec<tunnel::PrecedenceEntry>, Vec<tunnel::CostEntry>) {
    let (costs, precedences) = (
        &identity.spec.service_hosting_costs,
        &identity.spec.service_hosting_precedences,
    );
    let precedences = precedences
        .iter()
        .map(|(service, value)| tunnel::PrecedenceEntry {
            key: Some(service.to_string()),
            value: Some(number(*value)),
        });
    let costs = costs.iter().map(|(service, cost)| tunnel::CostEntry {
        key: Some(service.to_string()),
        value: Some((*cost).into()),
    });
    (precedences.collect(), costs.collect())
}

/// JSON, blank if there is none.
pub(crate) fn app_data(identity: &Record<Identity>) -> String {
    let data = &identity.spec.app_data;
    if data.0.is_empty() {
        String::new()
    } else {
        serde_json::to_string(data).unwrap_or_default()
    }
}

pub(crate) fn number(precedence: Precedence) -> i32 {
    match precedence {
        Precedence::Default => TerminatorPrecedence::Default.into(),
        Precedence::Required => TerminatorPrecedence::Required.into(),
        Precedence::Failed => TerminatorPrecedence::Failed.into(),
    }
}
