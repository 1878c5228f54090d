//! Who sees what, and by which index.

use super::*;

type Uids<'a> = &'a [&'a str];

fn shared(tenant: &str) -> Owner {
    Owner::new(mk_tenant(tenant), None)
}

async fn finds(store: &SqliteStore, caller: &Owner, task: &str) -> bool {
    let TaskKey { upstream, task } = mk_key(task);
    let scope = Scope::Owner(caller.clone());
    let found = store.lookup(&scope, &upstream, &task).await.unwrap();
    let reach = Reach {
        caller: caller.clone(),
        own: vec![upstream],
        all: Vec::new(),
    };
    let located = store.locate(&reach, &task).await.unwrap();
    assert_eq!(found.as_slice(), located, "the two ways to find it agree");
    found.is_some()
}

/// Recorded by a credential that names no principal.
#[tokio::test]
async fn case_04_a_task_without_principal_is_any_principal_s_of_its_tenant() {
    let (_folder, store) = mk_store();
    born(&store, "t", shared("acme")).await;
    for principal in ["alice", "bob"] {
        assert!(finds(&store, &mk_owner("acme", principal), "t").await);
        assert!(!finds(&store, &mk_owner("globex", principal), "t").await);
    }
    assert!(finds(&store, &shared("acme"), "t").await);
    assert!(!finds(&store, &Owner::anonymous(), "t").await);
}

#[tokio::test]
async fn case_05_a_principal_s_task_is_nobody_s_who_names_none() {
    let (_folder, store) = mk_store();
    born(&store, "t", mk_owner("acme", "alice")).await;
    assert!(!finds(&store, &shared("acme"), "t").await);
    assert!(finds(&store, &mk_owner("acme", "alice"), "t").await);
}

#[tokio::test]
async fn case_06_the_unattributed_find_what_is_unattributed_and_no_more() {
    let (_folder, store) = mk_store();
    born(&store, "hers", mk_owner("acme", "alice")).await;
    born(&store, "tenants", shared("acme")).await;
    born(&store, "nobodys", Owner::anonymous()).await;
    let nobody = Owner::anonymous();
    assert!(!finds(&store, &nobody, "hers").await);
    assert!(!finds(&store, &nobody, "tenants").await);
    assert!(finds(&store, &nobody, "nobodys").await);
    assert!(!finds(&store, &mk_owner("acme", "alice"), "nobodys").await);
}

#[tokio::test]
async fn who_may_see_whose_task() {
    let (_folder, store) = mk_store();
    let mut elsewhere = mk_owner("acme", "alice");
    elsewhere.tenant.as_mut().unwrap().namespace = "evil".into();
    let tasks = [
        ("alice", mk_owner("acme", "alice")),
        ("shared", shared("acme")),
        ("globex", mk_owner("globex", "alice")),
        ("open", Owner::anonymous()),
        ("elsewhere", elsewhere.clone()),
    ];
    for (task, owner) in &tasks {
        born(&store, task, owner.clone()).await;
    }
    let table: [(Scope, &[&str]); 8] = [
        (
            Scope::Owner(mk_owner("acme", "alice")),
            &["alice", "shared"],
        ),
        (Scope::Owner(mk_owner("acme", "bob")), &["shared"]),
        (Scope::Owner(shared("acme")), &["shared"]),
        (Scope::Owner(mk_owner("globex", "alice")), &["globex"]),
        (Scope::Owner(Owner::anonymous()), &["open"]),
        (Scope::Owner(elsewhere), &["elsewhere"]),
        (Scope::Tenant(mk_tenant("acme")), &["alice", "shared"]),
        (Scope::Tenant(mk_tenant("nobody")), &[]),
    ];
    let upstream = mk_key("x").upstream;
    for (scope, seen) in table {
        for (task, owner) in &tasks {
            let id = task.parse().unwrap();
            let entry = store.lookup(&scope, &upstream, &id).await.unwrap();
            let expected = seen.contains(task).then_some(owner);
            let found = entry.as_ref().map(|entry| &entry.birth.owner);
            assert_eq!(found, expected, "{task} for {scope:?}");
        }
    }
}

#[tokio::test]
async fn what_is_one_s_own_is_found_at_every_upstream() {
    let (_folder, store) = mk_store();
    let at = |uid: &str, task: &str| TaskKey::new(UpstreamUid(uid.into()), task.parse().unwrap());
    let alice = mk_owner("acme", "alice");
    for (key, owner) in [
        (at("uid-a", "same"), alice.clone()),
        (at("uid-b", "same"), shared("acme")),
        (at("uid-c", "same"), mk_owner("acme", "bob")),
        (at("uid-d", "same"), mk_owner("globex", "alice")),
        (at("uid-a", "other"), alice.clone()),
    ] {
        store.commit(birth(&key, owner)).await.unwrap();
    }
    let of = async |caller: &Owner, task: &str| {
        let found = store.own(caller, &task.parse().unwrap()).await.unwrap();
        let uids = found.into_iter().map(|entry| entry.key.upstream.0);
        uids.collect::<Vec<_>>()
    };
    assert_eq!(of(&alice, "same").await, ["uid-a", "uid-b"]);
    assert_eq!(of(&shared("acme"), "same").await, ["uid-b"]);
    assert_eq!(of(&Owner::anonymous(), "same").await, Vec::<String>::new());
    assert_eq!(of(&alice, "none").await, Vec::<String>::new());
}

/// The subject 42 of two issuers, and a key and a token of one name.
#[tokio::test]
async fn case_97_who_is_named_alike_by_another_source_is_another_owner() {
    let (_folder, store) = mk_store();
    let of = |principal: &str| Owner::new(mk_tenant("acme"), Some(Principal::new(principal)));
    let owners = [
        "jwt:https://one.example#42",
        "jwt:https://other.example#42",
        "jwt:https://one.example#alice",
        "key:alice",
        "key:42",
        "alice",
        "42",
    ];
    for (task, owner) in owners.iter().enumerate() {
        born(&store, &format!("task-{task}"), of(owner)).await;
    }
    let upstream = mk_key("x").upstream;
    for (task, owner) in owners.iter().enumerate() {
        let id = format!("task-{task}").parse().unwrap();
        for caller in owners {
            let scope = Scope::Owner(of(caller));
            let found = store.lookup(&scope, &upstream, &id).await.unwrap();
            assert_eq!(found.is_some(), caller == *owner, "{owner} by {caller}");
            let own = store.own(&of(caller), &id).await.unwrap();
            assert_eq!(own.len(), usize::from(caller == *owner));
        }
    }
}

#[tokio::test]
async fn case_07_one_id_of_two_upstreams_is_two_entries() {
    let (_folder, store) = mk_store();
    let owner = mk_owner("acme", "alice");
    let keys = ["uid-a", "uid-b"]
        .map(|uid| TaskKey::new(UpstreamUid(uid.into()), "same".parse().unwrap()));
    for key in &keys {
        store.commit(birth(key, owner.clone())).await.unwrap();
    }
    for key in &keys {
        let scope = Scope::Owner(owner.clone());
        let entry = store
            .lookup(&scope, &key.upstream, &key.task)
            .await
            .unwrap();
        assert_eq!(entry.unwrap().key, *key);
    }
}

#[tokio::test]
async fn an_id_is_located_where_the_caller_may_see_it() {
    let (_folder, store) = mk_store();
    let uid = |name: &str| UpstreamUid(name.into());
    let entries = [
        ("uid-a", mk_owner("acme", "alice")),
        ("uid-b", mk_owner("acme", "bob")),
        ("uid-c", shared("acme")),
        ("uid-d", mk_owner("globex", "alice")),
        ("uid-e", Owner::anonymous()),
    ];
    for (upstream, owner) in &entries {
        let key = TaskKey::new(uid(upstream), "same".parse().unwrap());
        store.commit(birth(&key, owner.clone())).await.unwrap();
    }
    let (alice, bob) = (mk_owner("acme", "alice"), mk_owner("acme", "bob"));
    let every: Uids<'_> = &["uid-a", "uid-b", "uid-c", "uid-d", "uid-e"];
    let table: [(&Owner, Uids<'_>, Uids<'_>, Uids<'_>); 8] = [
        // Caller, where its own, where all, where found.
        (&alice, &["uid-a"], &[], &["uid-a"]),
        (&alice, &["uid-b", "uid-d", "uid-e"], &[], &[]),
        (&alice, &["uid-a"], &["uid-b"], &["uid-a", "uid-b"]),
        (&alice, &["uid-c"], &["uid-d"], &["uid-c"]),
        (&bob, every, &[], &["uid-b", "uid-c"]),
        (&alice, &[], every, &["uid-a", "uid-b"]),
        (&Owner::anonymous(), every, &[], &["uid-e"]),
        (&alice, &[], &[], &[]),
    ];
    for (caller, own, all, expected) in table {
        let reach = Reach {
            caller: caller.clone(),
            own: own.iter().map(|name| uid(name)).collect(),
            all: all.iter().map(|name| uid(name)).collect(),
        };
        let task = "same".parse().unwrap();
        let found = store.locate(&reach, &task).await.unwrap();
        let found: Vec<_> = found.iter().map(|it| it.key.upstream.0.as_str()).collect();
        assert_eq!(found, expected, "{reach:?}");
        let other = store.locate(&reach, &"other".parse().unwrap()).await;
        assert!(other.unwrap().is_empty());
    }
}

/// The steps of a query's plan.
fn plan(store: &SqliteStore, text: &str) -> String {
    let connection = schema::open_read_only(&store.options.path).unwrap();
    let mut statement = connection
        .prepare(&format!("explain query plan {text}"))
        .unwrap();
    let values = vec![rusqlite::types::Null; statement.parameter_count()];
    let step = |row: &rusqlite::Row<'_>| row.get::<_, String>("detail");
    let steps = statement
        .query_map(rusqlite::params_from_iter(values), step)
        .unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn case_14_every_read_of_the_path_is_by_index() {
    let (_folder, store) = mk_store();
    let entry = born(&store, "t", mk_owner("acme", "alice")).await;
    let writer = schema::open(&store.options.path).unwrap();
    let rows = "with recursive n(i) as (select 0 union all select i + 1 from n where i < 99999)
        insert into entry select 'uid-reports', 'task-' || i, '=hangar', '=acme', '=key:alice',
        'working', 1, i, 1, ?1 from n";
    writer.execute(rows, [entry.encode()]).unwrap();
    let upstream = mk_key("t").upstream;
    let hit = Scope::Owner(mk_owner("acme", "alice"));
    let foreign = Scope::Owner(mk_owner("globex", "alice"));
    for task in ["task-0", "task-77777", "task-99999"] {
        let id = task.parse().unwrap();
        assert!(store.lookup(&hit, &upstream, &id).await.unwrap().is_some());
        assert!(
            store
                .lookup(&foreign, &upstream, &id)
                .await
                .unwrap()
                .is_none()
        );
    }
    let due = store.due(&Whose::All, Millis(2), 9).await.unwrap();
    assert_eq!(due.len(), 3);
    let table = [
        (
            read::BY_OWNER,
            "USING INDEX entry_owner (namespace=? AND tenant=? AND task=? AND upstream=? AND principal=?)",
        ),
        (
            read::BY_TENANT,
            "USING INDEX entry_owner (namespace=? AND tenant=? AND task=? AND upstream=?)",
        ),
        (
            read::BY_OWNER_ANYWHERE,
            "USING INDEX entry_owner (namespace=? AND tenant=? AND task=?)",
        ),
        (
            read::BY_TASK,
            "USING COVERING INDEX entry_owner (namespace=? AND tenant=? AND task=?)",
        ),
        (read::DUE, "INDEX entry_due (due_at<?)"),
        (
            read::DUE_OF,
            "INDEX entry_live (namespace=? AND tenant=? AND due_at<?)",
        ),
        (
            read::LIVE_OF,
            "USING PRIMARY KEY (namespace=? AND tenant=?)",
        ),
        (
            crate::sqlite::pins::PINNED,
            "USING PRIMARY KEY (class=? AND namespace=? AND name=?)",
        ),
    ];
    for (text, index) in table {
        let plan = plan(&store, text);
        assert!(plan.contains(index), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP"), "{plan}");
    }
}
