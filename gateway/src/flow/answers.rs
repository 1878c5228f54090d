//! Who can answer which question: what the client declared when it made the task, or declares now.

use std::collections::BTreeSet;

use hangar_ledger::Ability;
use hangar_relay::params::Capabilities;
use hangar_relay::task::Needs;

/// What a client can answer.
#[derive(Clone, Copy, Debug)]
pub struct Able<'a> {
    /// Declared by the request that made the task.
    pub born: &'a BTreeSet<Ability>,
    /// Declared by the request that answers.
    pub now: &'a Capabilities<'a>,
}

// === impl Able ===

impl Able<'_> {
    /// Whether one of the two requests declared what a question needs.
    pub fn meets(&self, needs: Needs) -> bool {
        let ability = match needs {
            Needs::ElicitationForm => Some(Ability::ElicitationForm),
            Needs::ElicitationUrl => Some(Ability::ElicitationUrl),
            Needs::Sampling => Some(Ability::Sampling),
            Needs::Roots => Some(Ability::Roots),
            Needs::Unknown => None,
        };
        needs.met_by(self.now).is_yes()
            || ability.is_some_and(|ability| self.born.contains(&ability))
    }
}

/// What a request declares, as the ledger keeps it.
pub fn abilities(capabilities: &Capabilities<'_>) -> BTreeSet<Ability> {
    let Capabilities {
        elicitation_form,
        elicitation_url,
        sampling,
        roots,
        ..
    } = capabilities;
    let declared = [
        (Ability::ElicitationForm, elicitation_form),
        (Ability::ElicitationUrl, elicitation_url),
        (Ability::Sampling, sampling),
        (Ability::Roots, roots),
    ];
    let declared = declared.into_iter().filter(|(_, said)| said.is_yes());
    declared.map(|(ability, _)| ability).collect()
}
