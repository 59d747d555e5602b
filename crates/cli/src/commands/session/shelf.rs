//! `everturn session archive`, `unarchive`, `delete`, `restore` and `purge`.
//!
//! Every session that is named is looked up before anything is done, so that a mistyped id changes nothing.

use anyhow::{Result, bail};
use everturn_engine::Engine;
use everturn_model::event::SessionChange;
use everturn_model::{Session, SessionId};
use serde_json::json;

use super::super::trash;
use super::lookup;
use crate::table;

/// The archive and the trash, as a command works with them.
pub(super) struct Shelf<'a> {
    /// The engine.
    pub(super) engine: &'a Engine,
    /// Whether what was done is said as JSON.
    pub(super) json: bool,
}

impl Shelf<'_> {
    /// Takes sessions out of the list.
    pub(super) async fn archive(&self, ids: &[String]) -> Result<()> {
        let sessions = self.listed(ids).await?;
        for session in sessions.iter().filter(|session| session.time.archived.is_none()) {
            let archived = vec![SessionChange::Archived { time: Some(self.engine.mint().now()) }];
            self.engine.sessions().change(&session.id, archived).await?;
        }
        self.say("archived", &names(&sessions), "archived");
        Ok(())
    }

    /// Puts them back.
    pub(super) async fn unarchive(&self, ids: &[String]) -> Result<()> {
        let sessions = self.listed(ids).await?;
        for session in sessions.iter().filter(|session| session.time.archived.is_some()) {
            let back = vec![SessionChange::Archived { time: None }];
            self.engine.sessions().change(&session.id, back).await?;
        }
        self.say("unarchived", &names(&sessions), "in the list again");
        Ok(())
    }

    /// Puts sessions into the trash.
    pub(super) async fn delete(&self, ids: &[String]) -> Result<()> {
        let sessions = self.listed(ids).await?;
        let mut trashed: Vec<SessionId> = Vec::new();
        for session in &sessions {
            // One that belongs to another that was named is there already.
            if !trashed.contains(&session.id) {
                trashed.extend(self.engine.sessions().trash(&session.id).await?);
            }
        }
        self.say("trashed", &trashed, "in the trash; `everturn session restore` takes it out again");
        Ok(())
    }

    /// Takes sessions out of the trash.
    pub(super) async fn restore(&self, ids: &[String]) -> Result<()> {
        let mut sessions = Vec::new();
        for id in ids {
            sessions.push(lookup::trashed(self.engine, id).await?);
        }
        let mut restored: Vec<SessionId> = Vec::new();
        for session in &sessions {
            if !restored.contains(&session.id) {
                restored.extend(self.engine.trash().restore(&session.id).await?);
            }
        }
        self.say("restored", &restored, "out of the trash");
        for session in &sessions {
            if let Some(parent) = &session.parent
                && self.engine.trash().find(parent).await?.is_some()
            {
                table::note(format!("{} belongs to {parent}, which is still in the trash", session.id));
            }
        }
        Ok(())
    }

    /// Deletes sessions for good.
    pub(super) async fn purge(&self, ids: &[String], erase: bool, yes: bool) -> Result<()> {
        let mut sessions = Vec::new();
        for id in ids {
            sessions.push(lookup::doomed(self.engine, id).await?);
        }
        if !yes {
            for (id, session) in &sessions {
                match session {
                    None => bail!("{id} cannot be read; --yes deletes it for good"),
                    Some(session) if session.time.trashed.is_none() => bail!(
                        "{id} is not in the trash; `everturn session delete {id}` puts it there, and --yes deletes it \
                         for good at once"
                    ),
                    Some(_) => {}
                }
            }
            let mut asked: Vec<SessionId> = Vec::new();
            for (id, _) in &sessions {
                for member in self.engine.trash().family(id).await? {
                    if !asked.contains(&member.id) {
                        table::note(format!("{}  {}", member.id, member.title));
                        asked.push(member.id);
                    }
                }
            }
            table::confirm("Delete this for good? It cannot be undone.")?;
        }
        let mut purged: Vec<SessionId> = Vec::new();
        for (id, _) in &sessions {
            if !purged.contains(id) {
                purged.extend(self.engine.trash().purge(id).await?);
            }
        }
        self.engine.trash().reclaim().await?;
        if erase {
            trash::erase_deleted(self.engine).await;
        }
        self.say("purged", &purged, "deleted for good");
        Ok(())
    }

    async fn listed(&self, ids: &[String]) -> Result<Vec<Session>> {
        let mut sessions = Vec::new();
        for id in ids {
            sessions.push(lookup::listed(self.engine, id).await?);
        }
        Ok(sessions)
    }

    fn say(&self, key: &str, ids: &[SessionId], what: &str) {
        if self.json {
            table::json(&json!({ key: ids }));
        } else {
            for id in ids {
                table::line(format!("{id} is {what}"));
            }
        }
    }
}

fn names(sessions: &[Session]) -> Vec<SessionId> {
    sessions.iter().map(|session| session.id.clone()).collect()
}
