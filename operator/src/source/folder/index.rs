//! The files of the last pass, and the objects that they amount to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hangar_crds::{McpUpstream, TenantPolicy};
use hangar_operator_core::{Change, Object, ObjectId, ObjectKind, Undecodable};
use hangar_wire::{Sha256Hex, hex};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::Value;

use super::memory::Memory;
use super::walk;
use crate::source::manifest::{self, Completeness, Entry, Form, Manifest, Problem, Reason};
use crate::state::StateDir;

/// What the folder amounts to, kept from pass to pass.
#[derive(Debug)]
pub struct Index {
    roots: Vec<PathBuf>,
    /// Whose objects count; empty: all.
    namespaces: BTreeSet<String>,
    files: BTreeMap<PathBuf, Known>,
    objects: BTreeMap<ObjectId, Tracked>,
    /// Kept over a delete, so that a generation never comes twice with another content.
    generations: BTreeMap<ObjectId, (i64, Sha256Hex)>,
    memory: Option<Memory>,
    /// What damaged files said before this process began; told before the first whole picture.
    recalled: Vec<Object>,
    loaded: bool,
}

/// Result of one pass.
#[derive(Debug)]
pub struct Scan {
    pub changes: Vec<Change>,
    /// All problems as they are now.
    pub problems: BTreeSet<Problem>,
    pub stability: Stability,
}

/// Whether files may be half written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Settled,
    /// Some file changed a moment ago and was left out of this pass.
    BeingWritten,
}

/// A file at the time of the last pass.
#[derive(Debug)]
struct Known {
    digest: Sha256Hex,
    manifest: Manifest,
}

/// An object that was sent.
#[derive(Debug)]
struct Tracked {
    digest: Sha256Hex,
    object: Object,
}

/// A file that changed within this time is read in a later pass: it may be half written.
const SETTLE: Duration = Duration::from_millis(50);
const MAX_FILE_BYTES: u64 = 8 << 20;
const KINDS: [ObjectKind; 3] = [
    ObjectKind::McpUpstream,
    ObjectKind::TenantPolicy,
    ObjectKind::Secret,
];

// === impl Index ===

impl Index {
    /// Roots are folders, or single files.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self {
            roots,
            namespaces: BTreeSet::new(),
            files: BTreeMap::new(),
            objects: BTreeMap::new(),
            generations: BTreeMap::new(),
            memory: None,
            recalled: Vec::new(),
            loaded: false,
        }
    }

    /// Keeps copies of whole files, and goes by them where a file is damaged at the start.
    #[must_use]
    pub fn remembering(mut self, state: StateDir) -> Self {
        self.memory = Some(Memory::new(state));
        self
    }

    /// Leaves out objects of other namespaces; with no namespace given, none.
    #[must_use]
    pub fn only(mut self, namespaces: &[String]) -> Self {
        self.namespaces = namespaces.iter().cloned().collect();
        self
    }

    /// Looks at every file.
    pub fn scan(&mut self, now: SystemTime) -> Scan {
        let found = walk::walk(&self.roots);
        let mut problems = BTreeSet::new();
        let mut stability = Stability::Settled;
        self.files.retain(|path, _| {
            found.files.contains_key(path) || found.failed.keys().any(|it| path.starts_with(it))
        });
        if let Some(memory) = &mut self.memory {
            let files = &self.files;
            memory.retain(|path| files.contains_key(path) || found.files.contains_key(path));
        }
        for (path, error) in &found.failed {
            problems.insert(unreadable(path, error.clone()));
        }
        for (path, modified) in &found.files {
            let age = modified.and_then(|modified| now.duration_since(modified).ok());
            if age.is_some_and(|age| age < SETTLE) {
                stability = Stability::BeingWritten;
            } else if let Err(problem) = self.read(path) {
                problems.insert(problem);
            }
        }
        let root_failed = self.roots.iter().any(|it| found.failed.contains_key(it));
        // A folder of which nothing can be read says nothing of what is wanted.
        let mut manifests = self.files.values().map(|file| &file.manifest);
        let is_damaged = |it: &Manifest| it.completeness == Completeness::Damaged;
        let unreadable = (!problems.is_empty() || manifests.clone().any(is_damaged))
            && manifests.all(|it| it.entries.is_empty());
        let complete = stability == Stability::Settled && !root_failed && !unreadable;
        let changes = if self.loaded || complete {
            self.changes(&mut problems)
        } else {
            let manifests = self.files.values().map(|file| &file.manifest);
            problems.extend(manifests.flat_map(|it| it.problems.iter().cloned()));
            Vec::new()
        };
        Scan {
            changes,
            problems,
            stability,
        }
    }

    /// Takes a file's content, unless it is what is known.
    fn read(&mut self, path: &Path) -> Result<(), Problem> {
        let text = match read_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(path, error.to_string())),
        };
        let digest = Sha256Hex::of(text.as_bytes());
        let known = self.files.get(path);
        if known.is_some_and(|known| known.digest == digest) {
            return Ok(());
        }
        let mut manifest = manifest::read(path, &text);
        if let (Completeness::Damaged, Some(known)) = (manifest.completeness, known) {
            keep_earlier(&mut manifest, &known.manifest);
        }
        let is_first_sight = known.is_none();
        if manifest.problems.is_empty() {
            if let Some(memory) = &mut self.memory {
                memory.keep(path, &text);
            }
        } else if is_first_sight {
            self.recall(path, &mut manifest);
        }
        self.files
            .insert(path.to_owned(), Known { digest, manifest });
        Ok(())
    }

    /// Takes up what a damaged file said when it was last whole.
    fn recall(&mut self, path: &Path, manifest: &mut Manifest) {
        let text = self.memory.as_mut().and_then(|memory| memory.recall(path));
        let Some(text) = text else {
            return;
        };
        let earlier = manifest::read(path, &text);
        let refused: BTreeSet<ObjectId> = manifest
            .entries
            .iter()
            .filter(|entry| matches!(entry.form, Form::Refused { .. }))
            .map(|entry| entry.id.clone())
            .collect();
        for entry in earlier.entries.iter().filter(|it| refused.contains(&it.id)) {
            let Some(object) = self.object(entry) else {
                continue;
            };
            if entry.id.kind == ObjectKind::Secret {
                let digest = entry.digest;
                self.objects
                    .insert(entry.id.clone(), Tracked { digest, object });
            } else {
                self.recalled.push(object);
            }
        }
        if manifest.completeness == Completeness::Damaged {
            keep_earlier(manifest, &earlier);
        }
        let file = path.display();
        tracing::warn!(%file, "the manifest is damaged: what it said when it was last whole stays in force");
    }

    fn changes(&mut self, problems: &mut BTreeSet<Problem>) -> Vec<Change> {
        let entries = self.winners(problems);
        let mut next = BTreeMap::new();
        let mut applied = Vec::new();
        for entry in entries {
            let before = self.objects.remove(&entry.id);
            let unchanged = before.as_ref().is_some_and(|it| it.digest == entry.digest);
            let (false, Some(object)) = (unchanged, self.object(&entry)) else {
                // The same as before; or a Secret that is refused, whose last good form stays.
                if let Some(before) = before {
                    next.insert(entry.id, before);
                }
                continue;
            };
            applied.push(Change::Apply(object.clone()));
            let digest = entry.digest;
            next.insert(entry.id, Tracked { digest, object });
        }
        let gone = std::mem::replace(&mut self.objects, next);
        if std::mem::replace(&mut self.loaded, true) {
            applied.extend(gone.into_keys().map(Change::Delete));
            return applied;
        }
        let recalled = std::mem::take(&mut self.recalled);
        let mut first: Vec<Change> = recalled.into_iter().map(Change::Apply).collect();
        first.extend(KINDS.map(|kind| self.reset(kind)));
        first
    }

    /// The entry that counts for each object: the first by file and line.
    fn winners(&self, problems: &mut BTreeSet<Problem>) -> Vec<Entry> {
        let mut first: BTreeMap<&ObjectId, (&Path, &Entry)> = BTreeMap::new();
        for (path, known) in &self.files {
            problems.extend(known.manifest.problems.iter().cloned());
            let counted = |entry: &&Entry| {
                self.namespaces.is_empty() || self.namespaces.contains(&entry.id.namespace)
            };
            for entry in known.manifest.entries.iter().filter(counted) {
                let (file, line) = match first.get(&entry.id) {
                    None => {
                        first.insert(&entry.id, (path, entry));
                        continue;
                    }
                    Some((file, earlier)) => (file, earlier.line),
                };
                let (id, place) = (&entry.id, file.display());
                problems.insert(Problem {
                    file: path.clone(),
                    line: Some(entry.line),
                    field: Some("metadata.name".to_owned()),
                    reason: Reason::Duplicate,
                    message: format!("{id} is defined already at {place}:{line}, which counts; remove one of the two"),
                });
            }
        }
        first.into_values().map(|(_, it)| it.clone()).collect()
    }

    /// The object of an entry; `None` for a Secret that cannot be used.
    fn object(&mut self, entry: &Entry) -> Option<Object> {
        let Entry {
            id,
            form,
            spec_digest,
            line: _,
            digest: _,
        } = entry;
        let (class, error) = match form {
            Form::Secret(view) => return Some(Object::Secret(view.clone())),
            Form::Refused { .. } if id.kind == ObjectKind::Secret => return None,
            Form::Refused { class, message } => (class.clone(), message.clone()),
            Form::Object(value) => {
                let generation = self.generation(id, *spec_digest);
                match decode(id, value, generation) {
                    Ok(object) => return Some(object),
                    Err(error) => (None, error.to_string()),
                }
            }
        };
        Some(Object::Undecodable(Undecodable {
            id: id.clone(),
            uid: Some(uid(id)),
            generation: Some(self.generation(id, *spec_digest)),
            class,
            error,
        }))
    }

    fn generation(&mut self, id: &ObjectId, spec: Sha256Hex) -> i64 {
        let (generation, digest) = self.generations.entry(id.clone()).or_insert((1, spec));
        if *digest != spec {
            *generation += 1;
            *digest = spec;
        }
        *generation
    }

    fn reset(&self, kind: ObjectKind) -> Change {
        let of_kind = self.objects.iter().filter(|(id, _)| id.kind == kind);
        Change::Reset {
            kind,
            objects: of_kind.map(|(_, it)| it.object.clone()).collect(),
        }
    }
}

/// What a damaged file defined before and does not define now may be in its damaged part.
fn keep_earlier(manifest: &mut Manifest, earlier: &Manifest) {
    let defined: BTreeSet<_> = manifest.entries.iter().map(|it| it.id.clone()).collect();
    let kept = earlier
        .entries
        .iter()
        .filter(|it| !defined.contains(&it.id));
    manifest.entries.extend(kept.cloned());
}

fn read_text(path: &Path) -> io::Result<String> {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    let length = fs::metadata(path)?.len();
    if length > MAX_FILE_BYTES {
        return Err(invalid(format!(
            "{length} bytes are too large for a manifest; split it into files below {MAX_FILE_BYTES} bytes"
        )));
    }
    String::from_utf8(fs::read(path)?)
        .map_err(|_| invalid("not UTF-8; save the file as UTF-8 text".to_owned()))
}

fn unreadable(path: &Path, message: String) -> Problem {
    Problem {
        file: path.to_owned(),
        line: None,
        field: None,
        reason: Reason::Unreadable,
        message,
    }
}

/// Stands for the uid that an API server would give.
fn uid(id: &ObjectId) -> String {
    let ObjectId {
        kind,
        namespace,
        name,
    } = id;
    hex(Sha256Hex::of(format!("{kind}/{namespace}/{name}").as_bytes()).as_bytes())
}

fn decode(id: &ObjectId, value: &Value, generation: i64) -> Result<Object, serde_json::Error> {
    let object = match id.kind {
        ObjectKind::McpUpstream => {
            let mut upstream = McpUpstream::deserialize(value)?;
            complete(&mut upstream.metadata, id, generation);
            Object::Upstream(Box::new(upstream))
        }
        // A Secret has a form of its own and does not come here.
        ObjectKind::TenantPolicy | ObjectKind::Secret => {
            let mut policy = TenantPolicy::deserialize(value)?;
            complete(&mut policy.metadata, id, generation);
            Object::Policy(Box::new(policy))
        }
    };
    Ok(object)
}

/// Fills in what an API server would.
fn complete(metadata: &mut ObjectMeta, id: &ObjectId, generation: i64) {
    metadata.uid = Some(uid(id));
    metadata.generation = Some(generation);
}
