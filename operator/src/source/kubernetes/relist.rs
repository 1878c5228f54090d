//! What the watches of one kind listed: turns a relist into a reset, or into the difference.

use std::collections::BTreeSet;

use hangar_operator_core::{Change, Object, ObjectId, ObjectKind};

/// Objects of one kind by watch; there is one watch for each watched namespace.
#[derive(Debug)]
pub(super) struct Relist {
    kind: ObjectKind,
    scopes: Vec<Scope>,
    /// Every watch finished its first list, and the reset was sent.
    complete: bool,
}

#[derive(Debug, Default)]
struct Scope {
    listed: bool,
    known: BTreeSet<ObjectId>,
    /// Objects of the list that is under way; before the reset, all of this watch.
    buffer: Vec<Object>,
}

// === impl Relist ===

impl Relist {
    pub(super) fn new(kind: ObjectKind, watches: usize) -> Self {
        Self {
            kind,
            scopes: (0..watches).map(|_| Scope::default()).collect(),
            complete: false,
        }
    }

    /// A list begins: what an earlier, broken one brought does not count.
    pub(super) fn begin(&mut self, scope: usize) {
        self.scopes[scope].buffer.clear();
        self.scopes[scope].listed = false;
    }

    pub(super) fn collect(&mut self, scope: usize, object: Object) {
        self.scopes[scope].buffer.push(object);
    }

    /// A list is complete.
    pub(super) fn finish(&mut self, scope: usize) -> Vec<Change> {
        self.scopes[scope].listed = true;
        if self.complete {
            return self.scopes[scope].difference();
        }
        if !self.scopes.iter().all(|scope| scope.listed) {
            return Vec::new();
        }
        self.complete = true;
        let mut objects = Vec::new();
        for scope in &mut self.scopes {
            scope.known = scope.buffer.iter().map(Object::id).collect();
            objects.append(&mut scope.buffer);
        }
        vec![Change::Reset {
            kind: self.kind,
            objects,
        }]
    }

    /// An object was made or edited.
    pub(super) fn apply(&mut self, scope: usize, object: Object) -> Vec<Change> {
        let id = object.id();
        let scope = &mut self.scopes[scope];
        if !self.complete {
            scope.buffer.retain(|it| it.id() != id);
            scope.buffer.push(object);
            return Vec::new();
        }
        scope.known.insert(id);
        vec![Change::Apply(object)]
    }

    /// An object is gone.
    pub(super) fn delete(&mut self, scope: usize, id: &ObjectId) -> Vec<Change> {
        let scope = &mut self.scopes[scope];
        if !self.complete {
            scope.buffer.retain(|it| it.id() != *id);
            return Vec::new();
        }
        scope.known.remove(id);
        vec![Change::Delete(id.clone())]
    }
}

// === impl Scope ===

impl Scope {
    fn difference(&mut self) -> Vec<Change> {
        let listed: BTreeSet<ObjectId> = self.buffer.iter().map(Object::id).collect();
        let gone = self.known.difference(&listed).cloned();
        let mut changes: Vec<Change> = gone.map(Change::Delete).collect();
        changes.extend(self.buffer.drain(..).map(Change::Apply));
        self.known = listed;
        changes
    }
}

#[cfg(test)]
mod tests;
