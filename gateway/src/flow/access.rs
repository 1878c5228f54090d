//! Whose task it is: the one place that finds an entry for a client.
//!
//! Guarantees: a foreign task and an absent one are the same miss in the store's index and the same
//! answer. A [`Found`] is made here only.

use hangar_ledger::{Entry, Owner, TaskId, UpstreamUid};
use hangar_relay::wire::{Kind, WireError};
use hangar_store::{Error as StoreError, Reach, Scope};
use hangar_wire::{AnsweredBy, Visibility};

use super::section::Section;
use super::wire_status;
use crate::config::Grant;
use crate::config::active::Caller;
use crate::gateway::Gateway;

/// An entry that the client may see.
#[derive(Debug)]
pub struct Found {
    entry: Entry,
    role: Role,
}

/// What the client may do with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads and cancels.
    Reader,
    /// Reads, cancels and answers questions.
    ReaderWhoAnswers,
    /// Sees status and questions, and answers them.
    Answerer,
}

/// Which of these grants has a task of this id that the client may see: only where there is exactly
/// one such task, which is a miss like any other otherwise.
pub async fn place(
    gateway: &Gateway,
    caller: &Caller,
    grants: &[(&Grant, &UpstreamUid)],
    task: &TaskId,
) -> Result<Option<usize>, StoreError> {
    let mut reach = Reach {
        caller: caller.owner.clone(),
        own: Vec::new(),
        all: Vec::new(),
    };
    for (grant, uid) in grants {
        match scope(caller, grant) {
            Scope::Owner(_) => reach.own.push((*uid).clone()),
            Scope::Tenant(_) => reach.all.push((*uid).clone()),
        }
    }
    let found = gateway.store.locate(&reach, task).await?;
    let [only] = found.as_slice() else {
        return Ok(None);
    };
    let upstream = &only.key.upstream;
    Ok(grants.iter().position(|(_, uid)| *uid == upstream))
}

/// Where the policy lets this client see or answer for others of its tenant, the whole tenant
/// is looked through and the role decides; otherwise only its own.
fn scope(caller: &Caller, grant: &Grant) -> Scope {
    let for_others = grant.object.visibility == Visibility::Tenant || answers(caller, grant, false);
    match &caller.owner.tenant {
        Some(tenant) if for_others => Scope::Tenant(tenant.clone()),
        _ => Scope::Owner(caller.owner.clone()),
    }
}

/// Whether the policy lets the client answer questions of a task that it owns, or does not.
fn answers(caller: &Caller, grant: &Grant, owns: bool) -> bool {
    let Some(consent) = &grant.object.consent else {
        return false;
    };
    match &consent.answered_by {
        AnsweredBy::Owner => owns,
        AnsweredBy::Tenant => true,
        AnsweredBy::Principals { principals } => caller
            .owner
            .principal
            .as_ref()
            .is_some_and(|principal| principals.contains(principal.as_str())),
    }
}

// === impl Section ===

impl Section {
    /// The entry of this task as of now, where the client may see it. A miss is not counted here: the
    /// task may still be an orphan.
    ///
    /// Guarantees: what time has ended is ended here, so that no method sees more of it than another.
    pub async fn find(&self, task: &TaskId) -> Result<Found, WireError> {
        let scope = self.scope();
        let found = self
            .governor
            .gateway
            .store
            .lookup(&scope, &self.upstream.uid, task)
            .await
            .map_err(|error| self.store_failed(&error))?
            .and_then(|entry| {
                let role = self.role(&entry.birth.owner)?;
                Some(Found { entry, role })
            });
        let Found { entry, role } = found.ok_or(Kind::TaskNotFound)?;
        // Born under a configuration that this replica does not hold yet: it decides nothing.
        if entry.birth.term > self.governor.active.term() {
            let status = wire_status(entry.status());
            return Err(WireError::unavailable(Some(status)));
        }
        let entry = self.at_this_time(entry).await?;
        let entry = entry.ok_or(Kind::TaskNotFound)?;
        Ok(Found { entry, role })
    }

    fn scope(&self) -> Scope {
        scope(&self.caller, &self.grant)
    }

    fn role(&self, owner: &Owner) -> Option<Role> {
        let caller = &self.caller.owner;
        if owner.tenant != caller.tenant {
            return None;
        }
        let owns = owner.principal.is_none() || owner.principal == caller.principal;
        let reads = owns || self.grant.object.visibility == Visibility::Tenant;
        let answers = self.answers(owns);
        match (reads, answers) {
            (true, true) => Some(Role::ReaderWhoAnswers),
            (true, false) => Some(Role::Reader),
            (false, true) => Some(Role::Answerer),
            (false, false) => None,
        }
    }

    fn answers(&self, owns: bool) -> bool {
        answers(&self.caller, &self.grant, owns)
    }
}

// === impl Found ===

impl Found {
    pub fn into_parts(self) -> (Entry, Role) {
        (self.entry, self.role)
    }
}

// === impl Role ===

impl Role {
    pub fn answers(self) -> bool {
        match self {
            Self::ReaderWhoAnswers | Self::Answerer => true,
            Self::Reader => false,
        }
    }

    pub fn reads(self) -> bool {
        match self {
            Self::ReaderWhoAnswers | Self::Reader => true,
            Self::Answerer => false,
        }
    }
}
