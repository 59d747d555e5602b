//! Migrations: how an older database becomes one that this version knows.
//!
//! All of them run in the one transaction that also records them, so whoever is killed on the way leaves the old
//! database. Two processes may come at once: the second waits for the lock and finds the work done. An older version that
//! works with the database would go on writing as it knows, so nothing is changed while one lives.

use std::path::Path;

use deadpool_postgres::ClientWrapper;

use super::boot;
use super::failure::ServerFailure;
use super::pool::query;
use crate::{Error, owner};

/// The lock that whoever migrates holds alone.
const LOCK: i64 = 0x4576_746e_0000_0001;

/// What leads from each schema to the next.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_store.sql"),
    include_str!("../../migrations/postgres/0002_typed_log.sql"),
    include_str!("../../migrations/postgres/0003_approval_folder.sql"),
    include_str!("../../migrations/postgres/0004_held_prompts.sql"),
    include_str!("../../migrations/postgres/0005_bill.sql"),
];

/// What was found in the database.
enum FoundSchema {
    /// No schema of our name, or an empty one.
    Nothing { schema: bool },
    /// Ours, of this version.
    Version(i64),
    /// Somebody else's.
    Foreign,
}

/// Brings the database to the newest schema. One of a newer version is left as it is, and is an error.
///
/// `folder` tells which processes of this machine are dead.
pub(super) async fn migrate(client: &ClientWrapper, place: &str, folder: &Path) -> Result<(), ServerFailure> {
    if !is_due(&look(client).await?, place)? {
        return Ok(());
    }
    client.batch_execute("BEGIN").await?;
    let migrated = migrate_within(client, place, folder).await;
    client.batch_execute(if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    migrated
}

async fn migrate_within(client: &ClientWrapper, place: &str, folder: &Path) -> Result<(), ServerFailure> {
    // Others may take long with it, and waiting for them is right.
    client.batch_execute("SET LOCAL lock_timeout = 0").await?;
    client.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let found = look(client).await?;
    if !is_due(&found, place)? {
        return Ok(());
    }
    let version = match found {
        FoundSchema::Version(version) => {
            refuse_beside_others(client, place, folder).await?;
            version
        }
        FoundSchema::Nothing { schema: true } | FoundSchema::Foreign => 0,
        FoundSchema::Nothing { schema: false } => {
            client.batch_execute("CREATE SCHEMA everturn").await?;
            0
        }
    };
    for (number, sql) in (1i64..).zip(MIGRATIONS) {
        if number > version {
            client.batch_execute(sql).await?;
            client.execute("UPDATE schema SET version = $1", &[&number]).await?;
        }
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| Error::Server(format!("no random numbers: {error}")))?;
    let keep = "INSERT INTO meta VALUES ('secret', $1) ON CONFLICT (name) DO NOTHING";
    client.execute(keep, &[&secret.as_slice()]).await?;
    Ok(())
}

/// Who works with the database while its schema is old knows no other.
async fn refuse_beside_others(
    client: &ClientWrapper,
    place: &str,
    folder: &Path,
) -> Result<(), ServerFailure> {
    // No folder, no process that ever used it.
    let here = boot(folder).unwrap_or_default();
    let sql = "SELECT name, boot FROM host WHERE until > clock_timestamp() ORDER BY name";
    for row in query(client, sql, &[]).await? {
        let (name, place_of_it): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let is_here = !here.is_empty() && place_of_it == here;
        if is_here && owner::is_dead(folder, &name) {
            continue;
        }
        let by = if is_here {
            owner::describe(folder, &name)
        } else {
            format!("{name}, on another machine or with another data folder")
        };
        return Err(Error::OlderAtWork { place: place.to_owned(), by }.into());
    }
    Ok(())
}

/// The error that a database of a newer version is.
pub(super) async fn refuse_newer(client: &ClientWrapper, place: &str) -> Result<(), ServerFailure> {
    is_due(&look(client).await?, place)?;
    Ok(())
}

async fn look(client: &ClientWrapper) -> Result<FoundSchema, ServerFailure> {
    let sql = "SELECT count(*) > 0, count(c.oid) > 0, count(a.attname) > 0 FROM pg_namespace n
               LEFT JOIN pg_class c ON c.relnamespace = n.oid
               LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND c.relname = 'schema' AND c.relkind = 'r'
                 AND a.attname = 'version' AND a.atttypid = 'bigint'::regtype
               WHERE n.nspname = 'everturn'";
    let rows = query(client, sql, &[]).await?;
    let Some(row) = rows.first() else { return Ok(FoundSchema::Nothing { schema: false }) };
    let (schema, tables, ours): (bool, bool, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(match (tables, ours) {
        (false, _) => FoundSchema::Nothing { schema },
        (true, false) => FoundSchema::Foreign,
        (true, true) => {
            let rows = client.query("SELECT version FROM everturn.schema", &[]).await?;
            match rows.first() {
                Some(row) => FoundSchema::Version(row.try_get(0)?),
                None => FoundSchema::Foreign,
            }
        }
    })
}

/// Whether the database has an older schema than this version's. One that this version must not write is an error.
fn is_due(found: &FoundSchema, place: &str) -> Result<bool, Error> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    match found {
        FoundSchema::Foreign => Err(Error::NotOurs {
            path: place.into(),
            reason: "its schema `everturn` holds another program's tables".to_owned(),
        }),
        FoundSchema::Version(found) if *found > known => {
            Err(Error::Newer { place: place.to_owned(), found: *found, known })
        }
        FoundSchema::Version(found) => Ok(*found < known),
        FoundSchema::Nothing { .. } => Ok(true),
    }
}
