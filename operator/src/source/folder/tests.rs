//! Passes over a folder that changes.

use std::fs;
use std::os::unix::fs::symlink;

use hangar_operator_core::{Object, ObjectId, ObjectKind};

use super::super::manifest::Reason;
use super::*;

/// Long after every file was written.
fn later() -> SystemTime {
    SystemTime::now() + Duration::from_hours(1)
}

fn mk_upstream(name: &str, url: &str) -> String {
    format!(
        "apiVersion: hangar.dev/v1alpha1\nkind: McpUpstream\nmetadata: {{name: {name}}}\nspec: {{endpoint: {{url: \"{url}\"}}}}\n---\n"
    )
}

struct Rig {
    dir: tempfile::TempDir,
    index: Index,
}

impl Rig {
    fn new(files: &[(&str, String)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::new(vec![dir.path().to_owned()]);
        let rig = Self { dir, index };
        for (name, text) in files {
            rig.write(name, text);
        }
        rig
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn scan(&mut self) -> (Vec<String>, Vec<Reason>) {
        let scan = self.index.scan(later());
        let changes = scan.changes.iter().flat_map(shown).collect();
        (changes, scan.problems.iter().map(|it| it.reason).collect())
    }
}

/// One line a change; a reset is shown by its objects.
fn shown(change: &Change) -> Vec<String> {
    match change {
        Change::Apply(object) => vec![format!("apply {}", form(object))],
        Change::Delete(id) => vec![format!("delete {}", id.name)],
        Change::Reset { objects, .. } => {
            let line = |it| format!("reset {}", form(it));
            objects.iter().map(line).collect()
        }
    }
}

fn form(object: &Object) -> String {
    let id = object.id();
    match object {
        Object::Upstream(it) => format!("{}@{}", id.name, it.metadata.generation.unwrap()),
        Object::Undecodable(it) => format!("{}@{} bad", id.name, it.generation.unwrap()),
        Object::Policy(_) | Object::Secret(_) => id.name,
    }
}

#[test]
fn the_first_pass_resets_every_kind_and_later_ones_tell_differences() {
    let mut rig = Rig::new(&[
        ("a.yaml", mk_upstream("a", "http://a/")),
        ("sub/b.yml", mk_upstream("b", "http://b/")),
    ]);
    let first = rig.index.scan(later());
    assert_eq!(first.changes.len(), 3);
    let lines: Vec<String> = first.changes.iter().flat_map(shown).collect();
    assert_eq!(lines, ["reset a@1", "reset b@1"]);

    assert_eq!(rig.scan(), (vec![], vec![]));
    rig.write("a.yaml", &mk_upstream("a", "http://other/"));
    assert_eq!(rig.scan(), (vec!["apply a@2".into()], vec![]));
    fs::remove_file(rig.dir.path().join("a.yaml")).unwrap();
    assert_eq!(rig.scan(), (vec!["delete a".into()], vec![]));
    rig.write("a.yaml", &mk_upstream("a", "http://third/"));
    assert_eq!(rig.scan(), (vec!["apply a@3".into()], vec![]));
}

#[test]
fn uids_are_made_of_the_name() {
    let mut rig = Rig::new(&[("a.yaml", mk_upstream("a", "http://a/"))]);
    let scan = rig.index.scan(later());
    let Some(Change::Reset { objects, .. }) = scan.changes.into_iter().next() else {
        panic!("a reset first");
    };
    let Object::Upstream(upstream) = &objects[0] else {
        panic!("an upstream");
    };
    let digest = hangar_wire::Sha256Hex::of(b"McpUpstream/default/a");
    let expected = hangar_wire::hex(digest.as_bytes());
    assert_eq!(upstream.metadata.uid.as_deref(), Some(&*expected));
    let id = ObjectId::new(ObjectKind::McpUpstream, "default", "a");
    assert_eq!(objects[0].id(), id);
}

#[test]
fn a_damaged_file_keeps_what_it_defined_and_every_other_file() {
    let two = mk_upstream("a", "http://a/") + &mk_upstream("b", "http://b/");
    let mut rig = Rig::new(&[
        ("one.yaml", two),
        ("two.yaml", mk_upstream("c", "http://c/")),
    ]);
    rig.scan();
    let damaged = mk_upstream("a", "http://edited/") + "kind: McpUpstream\nspec: [\n";
    rig.write("one.yaml", &damaged);
    rig.write("two.yaml", &mk_upstream("c", "http://edited/"));
    let (changes, problems) = rig.scan();
    assert_eq!(changes, ["apply a@2", "apply c@2"]);
    assert_eq!(problems, [Reason::Syntax]);
    rig.write("one.yaml", &(damaged + "# still damaged"));
    assert_eq!(rig.scan(), (vec![], vec![Reason::Syntax]));
    rig.write("one.yaml", &mk_upstream("a", "http://edited/"));
    assert_eq!(rig.scan(), (vec!["delete b".into()], vec![]));
}

#[test]
fn a_refused_object_is_told_as_such_and_recovers() {
    let good = mk_upstream("a", "http://a/");
    let mut rig = Rig::new(&[("a.yaml", good.clone())]);
    rig.scan();
    rig.write("a.yaml", &good.replace("spec: {", "spec: {tols: 1, "));
    let (changes, problems) = rig.scan();
    assert_eq!(changes, ["apply a@2 bad"]);
    assert_eq!(problems, [Reason::Refused]);
    assert_eq!(rig.scan().0, [] as [&str; 0]);
    rig.write("a.yaml", &good);
    assert_eq!(rig.scan(), (vec!["apply a@3".into()], vec![]));
}

#[test]
fn the_first_file_by_path_defines_an_object() {
    let mut rig = Rig::new(&[("b.yaml", mk_upstream("x", "http://b/"))]);
    rig.scan();
    rig.write("c.yaml", &mk_upstream("x", "http://c/"));
    assert_eq!(rig.scan(), (vec![], vec![Reason::Duplicate]));
    rig.write("a.yaml", &mk_upstream("x", "http://a/"));
    let (changes, problems) = rig.scan();
    assert_eq!(changes, ["apply x@2"]);
    assert_eq!(problems, [Reason::Duplicate, Reason::Duplicate]);
}

#[test]
fn a_config_map_volume_is_followed_through_its_swap() {
    let mut rig = Rig::new(&[("..v1/a.yaml", mk_upstream("a", "http://a/"))]);
    let root = rig.dir.path().to_owned();
    symlink("..v1", root.join("..data")).unwrap();
    symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
    assert_eq!(rig.scan(), (vec!["reset a@1".into()], vec![]));
    rig.write("..v2/a.yaml", &mk_upstream("a", "http://b/"));
    symlink("..v2", root.join("..tmp")).unwrap();
    fs::rename(root.join("..tmp"), root.join("..data")).unwrap();
    assert_eq!(rig.scan(), (vec!["apply a@2".into()], vec![]));
}

#[test]
fn a_file_that_is_being_written_waits_and_so_does_the_first_reset() {
    let mut rig = Rig::new(&[("a.yaml", mk_upstream("a", "http://a/"))]);
    let modified = |rig: &Rig| {
        let metadata = fs::metadata(rig.dir.path().join("a.yaml")).unwrap();
        metadata.modified().unwrap()
    };
    let scan = rig.index.scan(modified(&rig));
    assert_eq!(scan.stability, Stability::BeingWritten);
    assert!(scan.changes.is_empty());
    assert_eq!(rig.scan().0, ["reset a@1"]);
    // Emptied, as by a shell that is about to write: nothing may be deleted yet.
    rig.write("a.yaml", "");
    let scan = rig.index.scan(modified(&rig));
    assert!(scan.changes.is_empty());
}

#[test]
fn a_missing_folder_loads_nothing_and_a_vanished_one_deletes_nothing() {
    let mut rig = Rig::new(&[("in/a.yaml", mk_upstream("a", "http://a/"))]);
    let root = rig.dir.path().join("in");
    let missing = rig.dir.path().join("elsewhere");
    let scan = Index::new(vec![missing.clone()]).scan(later());
    assert!(scan.changes.is_empty());
    assert_eq!(scan.problems.len(), 1);

    rig.index = Index::new(vec![root.clone()]);
    assert_eq!(rig.scan().0, ["reset a@1"]);
    fs::rename(&root, &missing).unwrap();
    assert_eq!(rig.scan(), (vec![], vec![Reason::Unreadable]));
}

#[test]
fn other_namespaces_are_left_out() {
    let mut rig = Rig::new(&[("a.yaml", mk_upstream("a", "http://a/"))]);
    let other = mk_upstream("b", "http://b/").replace("{name: b}", "{name: b, namespace: other}");
    rig.write("b.yaml", &other);
    rig.index = Index::new(vec![rig.dir.path().to_owned()]).only(&["other".to_owned()]);
    assert_eq!(rig.scan().0, ["reset b@1"]);
}

#[test]
fn a_file_that_is_damaged_over_a_restart_loses_nothing() {
    let state = tempfile::tempdir().unwrap();
    let restart = |rig: &mut Rig| {
        let index = Index::new(vec![rig.dir.path().to_owned()]);
        rig.index = index.remembering(StateDir::new(state.path()));
    };
    let good = mk_upstream("a", "http://a/");
    let mut rig = Rig::new(&[
        ("a.yaml", good.clone()),
        ("b.yaml", mk_upstream("b", "http://b/")),
    ]);
    restart(&mut rig);
    assert_eq!(rig.scan().0, ["reset a@1", "reset b@1"]);

    rig.write("a.yaml", "kind: [\n");
    restart(&mut rig);
    assert_eq!(rig.scan().0, ["reset a@1", "reset b@1"]);
    rig.write("a.yaml", &good.replace("endpoint", "endpiont"));
    restart(&mut rig);
    assert_eq!(rig.scan().0, ["apply a@1", "reset a@2 bad", "reset b@1"]);

    // What was deleted does not come back with a damaged namesake.
    fs::remove_file(rig.dir.path().join("a.yaml")).unwrap();
    assert_eq!(rig.scan().0, ["delete a"]);
    rig.write("a.yaml", "kind: [\n");
    restart(&mut rig);
    assert_eq!(rig.scan().0, ["reset b@1"]);
}

#[test]
fn a_folder_of_which_nothing_can_be_read_is_no_empty_world() {
    let mut rig = Rig::new(&[("a.yaml", "kind: [\n".into())]);
    let scan = rig.index.scan(later());
    assert!(scan.changes.is_empty() && !scan.problems.is_empty());
    rig.write("b.yaml", &mk_upstream("b", "http://b/"));
    assert_eq!(rig.scan().0, ["reset b@1"]);
}

#[tokio::test]
async fn a_watched_folder_sends_what_changes() {
    let rig = Rig::new(&[("a.yaml", mk_upstream("a", "http://a/"))]);
    let metrics = Metrics::new().unwrap();
    let folder = Box::new(Folder::new(
        rig.dir.path().to_owned(),
        vec![],
        StateDir::new(rig.dir.path().join(".state")),
        metrics.clone(),
    ));
    let (sender, mut changes) = mpsc::channel(16);
    let stop = CancellationToken::new();
    let running = tokio::spawn(folder.run(sender, stop.clone()));
    for _ in 0..3 {
        assert!(matches!(changes.recv().await, Some(Change::Reset { .. })));
    }
    rig.write("b.yaml", &mk_upstream("b", "http://b/"));
    rig.write("c.yaml", "kind: [\n");
    let change = changes.recv().await.unwrap();
    assert_eq!(shown(&change), ["apply b@1"]);
    rig.write("d.yaml", &mk_upstream("d", "http://d/"));
    let change = changes.recv().await.unwrap();
    assert_eq!(shown(&change), ["apply d@1"]);
    // The pass that brought `d` came after `c` was written.
    let text = metrics.render().unwrap();
    assert!(
        text.contains("manifest_errors{reason=\"syntax\"} 1"),
        "{text}"
    );
    stop.cancel();
    running.await.unwrap();
}
