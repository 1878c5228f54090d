//! Pins in SQLite: read by the gateway, written by the writer thread.

use std::collections::BTreeMap;

use hangar_ledger::{Millis, ToolDigest};
use hangar_wire::Sha256Hex;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use super::read::{signed, unsigned};
use crate::pins::{Contract, Kept, Known, PinScope, Pins, Present, Sight};

const REVISION: &str = "select revision from pin_revision where id = 1";
const BUMP: &str = "update pin_revision set revision = revision + 1 where id = 1";
const PINNED_BYTES: &str = "select coalesce(sum(length(contract)), 0) from pin
    where class = ?1 and namespace = ?2 and name = ?3";
const OTHER_BYTES: &str = "select coalesce(sum(length(contract)), 0) from pin_other
    where class = ?1 and namespace = ?2 and name = ?3";
const COMPLETE: &str = "select complete from pinning
    where class = ?1 and namespace = ?2 and name = ?3";
pub(super) const PINNED: &str = "select tool, digest from pin
    where class = ?1 and namespace = ?2 and name = ?3";
const OTHERS: &str = "select tool, digest from pin_other
    where class = ?1 and namespace = ?2 and name = ?3";
const AWAITED: &str = "select tool from pin_awaited
    where class = ?1 and namespace = ?2 and name = ?3";
const PUT_PIN: &str = "insert into pin (class, namespace, name, tool, digest, contract, at)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const PUT_OTHER: &str =
    "insert or replace into pin_other (class, namespace, name, tool, digest, contract, at)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const DROP_OTHER: &str = "delete from pin_other
    where class = ?1 and namespace = ?2 and name = ?3 and tool = ?4";
const DROP_AWAITED: &str = "delete from pin_awaited
    where class = ?1 and namespace = ?2 and name = ?3 and tool = ?4";
const PUT_COMPLETE: &str = "insert into pinning (class, namespace, name, complete, absent_since)
    values (?1, ?2, ?3, 1, null)
    on conflict (class, namespace, name) do update set complete = 1, absent_since = null";
const SCOPES: &str = "select namespace, name, absent_since from pinning where class = ?1";
const SET_ABSENT: &str = "update pinning set absent_since = ?4
    where class = ?1 and namespace = ?2 and name = ?3";
/// That a whole list was seen is kept as well: without contracts where `spec.tools.pins` names all tools.
const FORGET_UPSTREAM: [&str; 4] = [
    "delete from pin where class = ?1 and namespace = ?2 and name = ?3",
    "delete from pin_other where class = ?1 and namespace = ?2 and name = ?3",
    "delete from pin_awaited where class = ?1 and namespace = ?2 and name = ?3",
    "delete from pinning where class = ?1 and namespace = ?2 and name = ?3",
];
const FORGET_TOOL: [&str; 2] = [
    "delete from pin where class = ?1 and namespace = ?2 and name = ?3 and tool = ?4",
    DROP_OTHER,
];
const PUT_AWAITED: &str = "insert or ignore into pin_awaited (class, namespace, name, tool)
    values (?1, ?2, ?3, ?4)";
const ALL_PINNED: &str = "select namespace, name, tool, digest, contract, at from pin
    where class = ?1 order by namespace, name, tool";
const ALL_OTHERS: &str = "select namespace, name, tool, digest, contract, at from pin_other
    where class = ?1 order by namespace, name, tool";

/// How often pins were forgotten.
pub(super) fn revision(c: &Connection) -> rusqlite::Result<u64> {
    c.prepare_cached(REVISION)?
        .query_row([], |row| Ok(unsigned(row.get(0)?)))
}

/// What stands of one upstream; of one moment, where the caller holds a transaction.
pub(super) fn read(c: &Connection, scope: &PinScope) -> rusqlite::Result<Pins> {
    let of = columns(scope);
    let complete = c
        .prepare_cached(COMPLETE)?
        .query_map(of, |row| row.get(0))?
        .next()
        .transpose()?;
    Ok(Pins {
        revision: revision(c)?,
        complete: complete.unwrap_or(false),
        pinned: digests(c, PINNED, scope)?,
        others: digests(c, OTHERS, scope)?,
        awaited: c
            .prepare_cached(AWAITED)?
            .query_map(of, |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?,
        pinned_bytes: bytes(c, PINNED_BYTES, scope)?,
        other_bytes: bytes(c, OTHER_BYTES, scope)?,
    })
}

/// Takes in a whole list: pins what is seen for the first time, and notes what is not as pinned.
///
/// Guarantees: of two lists that both take themselves for the first, the second finds the first; one
/// from before a reset leaves no trace, and the answer's revision says so.
pub(super) fn sight(c: &Connection, what: &Sight, now: Millis) -> rusqlite::Result<Pins> {
    let Sight {
        scope,
        revision,
        contracts,
        new_tools,
    } = what;
    let mut pins = read(c, scope)?;
    if pins.revision != *revision {
        return Ok(pins);
    }
    let (class, namespace, name) = columns(scope);
    for contract in contracts {
        let Contract {
            tool,
            digest,
            canonical,
        } = contract;
        let key = params![class, namespace, name, tool];
        let text = digest.0.to_string();
        let values = params![class, namespace, name, tool, text, canonical, signed(now.0)];
        let size = canonical.len() as u64;
        let pinned = pins.pinned.get(tool);
        let is_taken = pinned.is_none() && pins.takes(tool, *new_tools);
        if is_taken || pinned == Some(digest) {
            if pins.pinned.insert(tool.clone(), *digest).is_none() {
                c.prepare_cached(PUT_PIN)?.execute(values)?;
                pins.pinned_bytes += size;
            }
            if pins.awaited.remove(tool) {
                c.prepare_cached(DROP_AWAITED)?.execute(key)?;
            }
            if pins.others.remove(tool).is_some() {
                c.prepare_cached(DROP_OTHER)?.execute(key)?;
            }
        } else if pins.notes(tool, *digest) {
            c.prepare_cached(PUT_OTHER)?.execute(values)?;
            // One that is written over counts until all is counted afresh, below.
            pins.other_bytes += size;
            pins.others.insert(tool.clone(), *digest);
        }
    }
    if !pins.complete {
        c.prepare_cached(PUT_COMPLETE)?
            .execute((class, namespace, name))?;
        pins.complete = true;
    }
    pins.other_bytes = bytes(c, OTHER_BYTES, scope)?;
    Ok(pins)
}

/// Counts absence from when it is first noticed, and forgets what was absent for long enough.
pub(super) fn retain(c: &Connection, present: &Present, now: Millis) -> rusqlite::Result<()> {
    let Present {
        class,
        upstreams,
        keep_ms,
    } = present;
    let rows: Vec<(String, String, Option<i64>)> = c
        .prepare_cached(SCOPES)?
        .query_map([class], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (namespace, name, since) in rows {
        let of = (namespace, name);
        let is_present = upstreams.contains(&of);
        let scope = PinScope {
            class: class.clone(),
            namespace: of.0,
            name: of.1,
        };
        let since = since.map(|since| Millis(unsigned(since)));
        match since {
            Some(_) if is_present => set_absent(c, &scope, None)?,
            None if !is_present => set_absent(c, &scope, Some(now))?,
            Some(since) if now.since(since) >= *keep_ms => {
                forget(c, &scope, None)?;
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Forgets what is kept of one upstream, or of one tool of it; false: nothing was, and nothing is
/// changed. The next sight is a first one, of the tool whatever becomes of new ones.
pub(super) fn forget(
    c: &Connection,
    scope: &PinScope,
    tool: Option<&str>,
) -> rusqlite::Result<bool> {
    let (class, namespace, name) = columns(scope);
    let mut rows = 0;
    if let Some(tool) = tool {
        for text in FORGET_TOOL {
            rows += c.execute(text, (class, namespace, name, tool))?;
        }
        if rows > 0 {
            c.execute(PUT_AWAITED, (class, namespace, name, tool))?;
        }
    } else {
        for text in FORGET_UPSTREAM {
            rows += c.execute(text, (class, namespace, name))?;
        }
    }
    if rows > 0 {
        c.execute(BUMP, [])?;
    }
    Ok(rows > 0)
}

/// Everything that is kept of one class.
pub(super) fn all(
    c: &Connection,
    class: &str,
) -> rusqlite::Result<BTreeMap<PinScope, BTreeMap<String, Known>>> {
    let mut book: BTreeMap<PinScope, BTreeMap<String, Known>> = BTreeMap::new();
    for text in [ALL_PINNED, ALL_OTHERS] {
        let mut statement = c.prepare(text)?;
        let mut rows = statement.query([class])?;
        while let Some(row) = rows.next()? {
            let scope = PinScope {
                class: class.to_owned(),
                namespace: row.get(0)?,
                name: row.get(1)?,
            };
            let kept = Kept {
                digest: digest(row, 3)?,
                contract: row.get(4)?,
                at: Millis(unsigned(row.get(5)?)),
            };
            let known = book.entry(scope).or_default();
            let known = known.entry(row.get(2)?).or_default();
            if text == ALL_PINNED {
                known.pinned = Some(kept);
            } else {
                known.other = Some(kept);
            }
        }
    }
    Ok(book)
}

fn bytes(c: &Connection, text: &str, scope: &PinScope) -> rusqlite::Result<u64> {
    c.prepare_cached(text)?
        .query_row(columns(scope), |row| Ok(unsigned(row.get(0)?)))
}

fn set_absent(c: &Connection, scope: &PinScope, since: Option<Millis>) -> rusqlite::Result<()> {
    let (class, namespace, name) = columns(scope);
    let since = since.map(|since| signed(since.0));
    c.prepare_cached(SET_ABSENT)?
        .execute((class, namespace, name, since))?;
    Ok(())
}

fn columns(scope: &PinScope) -> (&str, &str, &str) {
    let PinScope {
        class,
        namespace,
        name,
    } = scope;
    (class, namespace, name)
}

fn digests(
    c: &Connection,
    text: &str,
    scope: &PinScope,
) -> rusqlite::Result<BTreeMap<String, ToolDigest>> {
    let mut statement = c.prepare_cached(text)?;
    let rows = statement.query_map(columns(scope), |row| Ok((row.get(0)?, digest(row, 1)?)))?;
    rows.collect()
}

fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<ToolDigest> {
    let text: String = row.get(column)?;
    let digest: Result<Sha256Hex, _> = text.parse();
    digest.map(ToolDigest).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}
